#include "decision_log.hpp"

#include <cstddef>
#include <exception>

#include "base/text.hpp"

namespace forebay {
namespace {

// A longer line is written at once, so that a trainer of very short steps does not grow the buffer for good.
constexpr std::size_t kMostRuns = std::size_t{16} * 1024;

}  // namespace

DecisionLog::DecisionLog(const std::filesystem::path& file, const RecordingHeader& header, ConsoleLog& console)
    : name_(printable(file.native())), console_(console), file_(file, console) {
  runs_.reserve(kMostRuns + 2);
  file_.write(header_line(header), 1);
  file_.sync();
}

void DecisionLog::add(bool fresh) noexcept {
  if (ended_) return;
  try {
    if (runs_.empty()) runs_.push_back(0);
    // An odd number of runs ends with a fresh one.
    if (fresh == (runs_.size() % 2 == 1)) {
      ++runs_.back();
    } else {
      runs_.push_back(1);
    }
    ++next_;
    if (runs_.size() >= kMostRuns) write();
  } catch (const std::exception& error) {
    end(error.what());
  }
}

void DecisionLog::sync() noexcept {
  if (ended_) return;
  try {
    write();
    file_.sync();
    if (file_.lost() > 0) end("it could not be written");
  } catch (const std::exception& error) {
    end(error.what());
  }
}

void DecisionLog::end(std::string_view cause) noexcept {
  if (ended_) return;
  try {
    write();
    file_.sync();
    ended_ = true;
    console_.warn(name_ + " ends before step " + std::to_string(next_) + " (" + std::string(cause) +
                  "): a replay of this run will end there");
  } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory while telling of it; the file is whole up to here
    ended_ = true;
  }
}

void DecisionLog::write() {
  if (runs_.empty()) return;
  file_.write(decisions_line(written_, runs_), 1);
  runs_.clear();
  written_ = next_;
}

}  // namespace forebay
