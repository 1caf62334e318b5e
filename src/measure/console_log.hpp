#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>

#include <forebay/log.hpp>
#include <forebay/options.hpp>

namespace forebay::measure {

// Writes log lines to the program's logger if it has one, else to standard error, with at most one
// live status line below them. Any thread may call every member; lines and the status line are
// never interleaved. May block for as long as the terminal or the logger does.
class ConsoleLog {
 public:
  // Lines begin with "[forebay]", on ranks other than 0 with "[forebay rank N]". Only rank 0 has a
  // status line. Live::automatic: if `out` is a terminal that can move its cursor. With a logger
  // there is none. `out` must outlive the object.
  explicit ConsoleLog(std::uint32_t rank, Live live = Live::automatic, std::FILE* out = stderr, Logger logger = {});
  ~ConsoleLog();  // end_status()
  ConsoleLog(const ConsoleLog&) = delete;
  ConsoleLog& operator=(const ConsoleLog&) = delete;

  // Each writes one line, given without its newline; control characters and bytes that are not
  // UTF-8 appear as \xNN.
  void info(std::string_view line);
  void warn(std::string_view line);
  void error(std::string_view line);

  // Whether status() shows anything.
  [[nodiscard]] bool is_live() const noexcept;
  // Replaces the status line, cut to the width of the terminal. REQUIRES: well-formed UTF-8 on one line.
  void status(std::string_view text);
  // Leaves the status line on the screen and continues below it. No effect if there is none.
  void end_status();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::measure
