#pragma once

#include <termios.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <string_view>

namespace forebay::cli {

// The terminal of the command as a screen to draw on. Left as it was found, whatever ends the scope; nothing that was
// on it is lost. One object at a time.
class TerminalScreen {
 public:
  // Whether standard output is a terminal that can do this.
  [[nodiscard]] static bool is_there();

  TerminalScreen();
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  struct Size {
    std::size_t rows = 24;
    std::size_t columns = 80;
  };
  // As it is now: it may change at any time.
  [[nodiscard]] Size size() const;

  // Replaces what is shown by these lines, cut to the size of the screen. REQUIRES: well-formed UTF-8 without control
  // characters but line feeds.
  void show(const std::string& lines);

  // Waits this long for a key, a change of the size or a signal. The key, or 0.
  [[nodiscard]] char wait(int milliseconds);

 private:
  termios before_{};
  bool has_keys_ = false;
  struct sigaction resize_before_ {};
};

}  // namespace forebay::cli
