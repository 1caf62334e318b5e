#include "terminal.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/file_io.hpp"
#include "base/text.hpp"

namespace forebay::cli {
namespace {

// The screen that full-screen programs have beside the usual one, without a cursor and without wrapping.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[?7l";
constexpr std::string_view kLeave = "\033[?7h\033[?25h\033[?1049l";

// A terminal that is gone is found out by the next read.
void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = retry_interrupted([&] { return ::write(STDOUT_FILENO, text.data(), text.size()); });
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// It is there so that a poll() ends.
void on_resize(int /*signal*/) {}

}  // namespace

bool TerminalScreen::is_there() {
  const char* const term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

// Keys come one by one and are not shown. SIGWINCH needs a handler, or poll() would not return for
// it.
TerminalScreen::TerminalScreen() {
  struct sigaction resize {};
  resize.sa_handler = on_resize;
  ::sigaction(SIGWINCH, &resize, &resize_before_);
  has_keys_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
  if (has_keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VSUSP] = 0;  // none: a stopped program would leave the screen as it is
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  write_all(kEnter);
}

// In the reverse order; keys that nobody read are dropped, so that the shell does not get them.
TerminalScreen::~TerminalScreen() {
  write_all(kLeave);
  if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  ::sigaction(SIGWINCH, &resize_before_, nullptr);
}

TerminalScreen::Size TerminalScreen::size() const {
  winsize found{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || found.ws_row == 0 || found.ws_col == 0) return {};
  return {.rows = found.ws_row, .columns = found.ws_col};
}

// Every line is overwritten in place and cleared to its end: clearing the screen first would
// flicker.
void TerminalScreen::show(const std::string& lines) {
  const Size now = size();
  std::string out = "\033[H";
  std::size_t begin = 0;
  for (std::size_t row = 0; row < now.rows && begin < lines.size(); ++row) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    if (row > 0) out += "\r\n";
    out.append(clip(std::string_view(lines).substr(begin, end - begin), now.columns)).append("\033[K");
    begin = end + 1;
  }
  write_all(out + "\033[J");
}

// A terminal that has gone away counts as the key q.
char TerminalScreen::wait(int milliseconds) {
  pollfd keys{.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
  if (::poll(&keys, 1, milliseconds) <= 0) return 0;
  char key = 0;
  const bool is_gone = ::read(STDIN_FILENO, &key, 1) <= 0 && (keys.revents & (POLLHUP | POLLERR)) != 0;
  return is_gone ? 'q' : key;
}

}  // namespace forebay::cli
