#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <forebay/error.hpp>

#include <CLI/CLI.hpp>

#include "base/ending.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "feed_parts.hpp"
#include "report/live_run.hpp"

namespace forebay::cli {
namespace {

// The terminal as a full-screen display. It is restored whatever ends the scope, and nothing that
// was on it is lost. One object at a time.
class TerminalScreen {
 public:
  // Whether standard output is a terminal that supports this.
  [[nodiscard]] static bool is_there();

  TerminalScreen();
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  struct Size {
    std::size_t rows = 24;
    std::size_t columns = 80;
  };
  // The current size, which may change at any time.
  [[nodiscard]] Size size() const;

  // Shows these lines instead of the previous ones, cut to the size of the screen. REQUIRES:
  // well-formed UTF-8 without control characters except line feeds.
  void show(const std::string& lines);

  // Waits until a key, a resize, a signal or the time limit. Returns the key, or 0.
  [[nodiscard]] char wait(int milliseconds);

 private:
  termios before_{};
  bool has_keys_ = false;
  struct sigaction resize_before_ {};
};

// Escape sequences: the alternate screen, without a cursor and without wrapping.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[?7l";
constexpr std::string_view kLeave = "\033[?7h\033[?25h\033[?1049l";

// Errors are ignored: the next read notices that the terminal is gone.
void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = retry_interrupted([&] { return ::write(STDOUT_FILENO, text.data(), text.size()); });
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Does nothing, but with a handler the signal interrupts poll().
void on_resize(int /*signal*/) {}

bool TerminalScreen::is_there() {
  const char* const term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

// Keys are delivered one by one without echo. SIGWINCH needs a handler, or poll() would not return
// for it.
TerminalScreen::TerminalScreen() {
  struct sigaction resize {};
  resize.sa_handler = on_resize;
  ::sigaction(SIGWINCH, &resize, &resize_before_);
  has_keys_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
  if (has_keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VSUSP] = 0;  // disabled: a stopped program would leave the screen as it is
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  write_all(kEnter);
}

// Undoes the constructor in reverse order. Unread keys are discarded, so that the shell does not
// get them.
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

// Overwrites every line in place and clears it to its end; clearing the whole screen first would
// flicker.
void TerminalScreen::show(const std::string& lines) {
  const Size now = size();
  std::string out = "\033[H";
  std::size_t begin = 0;
  for (std::size_t row = 0; row < now.rows && begin < lines.size(); ++row) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    if (row > 0) out += "\r\n";
    const std::string_view line = std::string_view(lines).substr(begin, end - begin);
    std::string_view shown = clip(line, now.columns);
    // What is cut is left out below the title: a part of a number is another number.
    if (row > 0 && shown.size() < line.size() && line[shown.size()] != ' ')
      shown = shown.substr(0, shown.rfind(' ') + 1);
    out.append(shown).append("\033[K");
    begin = end + 1;
  }
  write_all(out + "\033[J");
}

// A terminal that was closed counts as the key q.
char TerminalScreen::wait(int milliseconds) {
  pollfd keys{.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
  if (::poll(&keys, 1, milliseconds) <= 0) return 0;
  char key = 0;
  const bool is_gone = ::read(STDIN_FILENO, &key, 1) <= 0 && (keys.revents & (POLLHUP | POLLERR)) != 0;
  return is_gone ? 'q' : key;
}

struct TopArguments {
  std::string run;
  double interval_s = 0;  // 0 = 1 on a terminal, 5 elsewhere
};

using TopClock = std::chrono::steady_clock;

// Does `work`, which reads the folder, on a separate thread, because a folder that does not answer
// must not keep the user from quitting. False if the user quit. Throws Error if the folder does not
// answer in time.
bool is_done(std::function<void()> work, const TopArguments& arguments, const std::function<bool()>& is_over) {
  if (ends_within(kSavePatience, std::move(work), is_over)) return true;
  if (is_over()) return false;
  throw Error(arguments.run + ": the folder has not answered for " + std::to_string(kSavePatience.count()) + " s");
}

// Reads the run's files. The thread shares `run`, since it outlives this command if the folder
// never answers.
bool look(const std::shared_ptr<report::LiveRun>& run, const TopArguments& arguments,
          const std::function<bool()>& is_over) {
  const double now_s = std::chrono::duration<double>(TopClock::now().time_since_epoch()).count();
  return is_done([run, now_s] { run->look(now_s); }, arguments, is_over);
}

// Null if a signal came first.
std::shared_ptr<report::LiveRun> open(const TopArguments& arguments) {
  const auto opened = std::make_shared<std::shared_ptr<report::LiveRun>>();
  const auto work = [opened, folder = arguments.run] { *opened = std::make_shared<report::LiveRun>(folder); };
  return is_done(work, arguments, [] { return StopOnSignal::flag().load(); }) ? *opened : nullptr;
}

// Full-screen display until a key or a signal. A run that has ended stays on the screen.
void draw(const std::shared_ptr<report::LiveRun>& run, const TopArguments& arguments) {
  TerminalScreen screen;
  char key = 0;
  const auto is_quit = [&key] { return key == 'q' || key == 'Q' || StopOnSignal::flag(); };
  const auto is_over = [&] {
    if (!is_quit()) key = screen.wait(0);
    return is_quit();
  };
  const auto interval = std::chrono::duration<double>(arguments.interval_s > 0 ? arguments.interval_s : 1);
  while (!is_quit() && look(run, arguments, is_over)) {
    const auto next = TopClock::now() + std::chrono::duration_cast<TopClock::duration>(interval);
    while (!is_quit()) {
      screen.show(report::live_table(*run, arguments.run, screen.size().rows));
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - TopClock::now());
      if (left.count() <= 0) break;
      key = screen.wait(static_cast<int>(left.count()));
    }
  }
}

// Prints a line per interval until the run ends or a signal comes. Without a run it fails at once: a script would wait
// for ever.
void print(const std::shared_ptr<report::LiveRun>& run, const TopArguments& arguments) {
  const auto is_over = [] { return StopOnSignal::flag().load(); };
  const auto interval = std::chrono::duration<double>(arguments.interval_s > 0 ? arguments.interval_s : 5);
  while (!is_over() && look(run, arguments, is_over)) {
    if (run->ranks().empty()) {
      throw Error(printable(arguments.run) +
                  " has no run.RANK.jsonl, intervals.RANK.jsonl or steps.RANK.jsonl: name the telemetry.dir of a run "
                  "that has begun");
    }
    std::printf("%s\n", report::live_line(*run).c_str());
    if (std::fflush(stdout) != 0 || run->has_ended()) return;
    const auto next = TopClock::now() + interval;
    while (!is_over() && TopClock::now() < next) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

int watch(const TopArguments& arguments) {
  constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  const StopOnSignal signals(kSignals);
  const auto run = open(arguments);
  if (!run) return 0;
  TerminalScreen::is_there() ? draw(run, arguments) : print(run, arguments);
  return 0;
}

}  // namespace

void add_top_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* command = app.add_subcommand("top", "Show a run while it goes, rank by rank");
  command->add_option("RUN", arguments->run, "the telemetry.dir of the run, which may be on another machine")
      ->required();
  seconds(command->add_option("--interval", arguments->interval_s,
                              "seconds from one look to the next (default: 1; 5 when not on a terminal)"));
  command->footer(
      "On a terminal q or Ctrl-C ends it; elsewhere it prints a line per interval until the run ends.\n"
      "Examples:\n"
      "  forebay top run\n"
      "  ssh -t node7 forebay top /scratch/run");
  on_call(*command, invocation, [arguments] { return watch(*arguments); });
}

}  // namespace forebay::cli
