// Writes log lines to stderr, and the status line of a terminal. Any thread may write. One mutex
// per log keeps lines and the status line apart: a line erases the status line and redraws it
// below. If the program has a logger, that takes the lines instead; if the logger throws, the line
// goes to the terminal. spdlog does the writing, without the lock that its console sinks share
// across the process.

#include "console_log.hpp"

#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include <spdlog/logger.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.hpp"

namespace forebay::measure {
namespace {

// console_mutex would be one lock for the whole process; Impl has a lock of its own.
using Sink = spdlog::sinks::ansicolor_sink<spdlog::details::console_nullmutex>;

// Without control sequences there is neither a status line nor colour.
bool is_capable_terminal(std::FILE* out) {
  const char* term = std::getenv("TERM");
  return ::isatty(::fileno(out)) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

spdlog::level::level_enum level_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::info: break;
  }
  return spdlog::level::info;
}

// Only rank 0 has one, because the ranks of a node usually share a terminal.
bool wants_status(std::uint32_t rank, Live live, std::FILE* out) {
  if (rank != 0 || live == Live::never) return false;
  return live == Live::always || is_capable_terminal(out);
}

// Columns that a line may fill without wrapping; unlimited if `out` is not a terminal.
std::size_t columns_of(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return std::string_view::npos;
  return size.ws_col - 1U;
}

}  // namespace

struct ConsoleLog::Impl {
  Impl(std::uint32_t rank, Live choice, std::FILE* file, Logger logger)
      : prefix(rank == 0 ? "[forebay] " : "[forebay rank " + std::to_string(rank) + "] "),
        program(std::move(logger)),
        live(!program && wants_status(rank, choice, file)),
        out(file) {
    const auto mode = is_capable_terminal(out) ? spdlog::color_mode::always : spdlog::color_mode::never;
    auto sink = std::make_shared<Sink>(out, mode);
    // Information keeps the terminal's own colour, so that only what needs attention stands out.
    sink->set_color(spdlog::level::info, "");
    sink->set_pattern(prefix + "%^%v%$");
    terminal = std::make_unique<spdlog::logger>("forebay", std::move(sink));
  }

  void line(LogLevel level, std::string_view text) {
    const std::lock_guard lock(mutex);
    // Messages contain file names, which may hold any bytes.
    std::string safe = printable_lines(text);
    if (is_told_to_program(level, safe)) return;
    if (level != LogLevel::info) safe.insert(0, std::string(to_string(level)) + ": ");
    if (!shown.empty()) write("\r\033[K");
    terminal->log(level_of(level), spdlog::string_view_t(safe.data(), safe.size()));
    if (!shown.empty()) write(shown);
    std::fflush(out);
  }

  // Returns false if the program's logger throws, because the line must still be seen.
  [[nodiscard]] bool is_told_to_program(LogLevel level, std::string_view text) const noexcept {
    if (!program) return false;
    try {
      program(level, text);
      return true;
    } catch (...) {
      return false;
    }
  }

  // A failure to write to the console has nowhere to be reported.
  void write(std::string_view text) { static_cast<void>(std::fwrite(text.data(), 1, text.size(), out)); }

  const std::string prefix;
  const Logger program;  // empty: none
  const bool live;
  std::FILE* const out;
  std::unique_ptr<spdlog::logger> terminal;
  std::mutex mutex;
  std::string shown;  // the status line on the screen; empty: none
};

ConsoleLog::ConsoleLog(std::uint32_t rank, Live live, std::FILE* out, Logger logger)
    : impl_(std::make_unique<Impl>(rank, live, out, std::move(logger))) {}

ConsoleLog::~ConsoleLog() { end_status(); }

void ConsoleLog::info(std::string_view line) { impl_->line(LogLevel::info, line); }

void ConsoleLog::warn(std::string_view line) { impl_->line(LogLevel::warning, line); }

void ConsoleLog::error(std::string_view line) { impl_->line(LogLevel::error, line); }

bool ConsoleLog::is_live() const noexcept { return impl_->live; }

void ConsoleLog::status(std::string_view text) {
  if (!impl_->live) return;
  const std::lock_guard lock(impl_->mutex);
  const std::string line = impl_->prefix + std::string(text);
  impl_->shown = clip(line, columns_of(impl_->out));
  impl_->write("\r" + impl_->shown + "\033[K");
  std::fflush(impl_->out);
}

// The last status line stays on the screen, and what follows begins below it.
void ConsoleLog::end_status() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->shown.empty()) return;
  impl_->shown.clear();
  impl_->write("\n");
  std::fflush(impl_->out);
}

}  // namespace forebay::measure
