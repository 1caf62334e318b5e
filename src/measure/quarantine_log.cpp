// The log of bad samples: lines of JSON in a file, and the first few as warnings on the console.
// Workers on all threads add entries under one mutex. A failure to write is reported once and never
// ends the run.

#include "quarantine_log.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "run_files.hpp"
#include "run_log.hpp"

namespace forebay::measure {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string json_line(const QuarantineEntry& entry) {
  Json out;
  out["time"] = utc_now();
  out["sample"] = value_or_null(entry.sample);
  out["path"] = valid_utf8(entry.path);
  out["reason"] = valid_utf8(entry.reason);
  out["epoch"] = value_or_null(entry.epoch);
  out["position"] = value_or_null(entry.position);
  out["attempt"] = value_or_null(entry.attempt);
  out["replacement"] = value_or_null(entry.replacement);
  return out.dump() + "\n";
}

}  // namespace

// Any worker may add entries before the run may write files; they wait until begin(). Each entry is
// passed to the operating system at once, because a run that dies of bad samples should leave them
// behind.
struct QuarantineLog::Impl {
  Impl(const std::string& dir, std::uint32_t rank, ConsoleLog& to) : console(to) {
    if (!dir.empty()) path = rank_file(dir, "quarantine", rank);
  }

  // The first kWarnings entries also go to the console; the last of them says where further ones
  // are.
  void warn(const QuarantineEntry& entry, std::uint64_t number) {
    if (number > kWarnings) return;
    std::string line = "bad sample " + printable(entry.path) + ": " + printable(entry.reason);
    if (number == kWarnings) {
      line += path.empty() ? "; further ones are only counted (telemetry.dir = \"\")"
                           : "; further ones go to " + printable(path.native()) + " only";
    }
    console.warn(line);
  }

  // A file that cannot be opened or written stays unusable, so that a full disk is reported once.
  void write() {
    if (!begun || waiting.empty() || unusable) return;
    unusable = true;  // unless the following succeeds
    if (!file) file = std::make_unique<JsonLinesFile>(path, console, JsonLinesFile::Mode::append);
    file->write(waiting, lines);
    file->sync();
    waiting.clear();
    lines = 0;
    unusable = false;
  }

  void write_or_warn() {
    try {
      write();
    } catch (const std::exception& e) {
      console.warn("the quarantine log is incomplete: " + printable(e.what()));
    }
  }

  ConsoleLog& console;
  std::filesystem::path path;  // empty: nothing on disk
  std::mutex mutex;
  std::unique_ptr<JsonLinesFile> file;
  bool begun = false;
  std::string waiting;  // lines that are not written yet
  std::uint64_t lines = 0;
  bool unusable = false;  // opening or writing failed; not tried again
  std::atomic<std::uint64_t> count{0};
};

QuarantineLog::QuarantineLog(const std::string& dir, std::uint32_t rank, ConsoleLog& console)
    : impl_(std::make_unique<Impl>(dir, rank, console)) {}

QuarantineLog::~QuarantineLog() { begin(); }

void QuarantineLog::begin() noexcept {
  try {
    const std::lock_guard lock(impl_->mutex);
    impl_->begun = true;
    impl_->write_or_warn();
  } catch (...) {  // NOLINT(bugprone-empty-catch): as in add()
  }
}

void QuarantineLog::add(const QuarantineEntry& entry) noexcept {
  try {
    const std::lock_guard lock(impl_->mutex);
    const std::uint64_t number = impl_->count.fetch_add(1, std::memory_order_relaxed) + 1;
    impl_->warn(entry, number);
    if (impl_->path.empty() || impl_->unusable) return;
    impl_->waiting += json_line(entry);
    ++impl_->lines;
    impl_->write_or_warn();
  } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory while reporting it: there is nowhere left to report to
  }
}

std::uint64_t QuarantineLog::count() const noexcept { return impl_->count.load(std::memory_order_relaxed); }

}  // namespace forebay::measure
