// The lines of a telemetry file, or of stretches of it if it has more bytes than may be read:
// evenly spread pieces of kStretch bytes, each from its first whole line to its last.
//
// A run of a week has gigabytes of steps; shares over time are right from a sample of them, and the
// report says so.

#include "line_source.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay::report {
namespace {

// No line of telemetry is nearly as long.
constexpr std::size_t kLongestTelemetryLine = std::size_t{1} << 20;
// Chosen: a dozen steps.
constexpr std::size_t kStretch = std::size_t{4} << 10;

}  // namespace

LineSource::LineSource(std::filesystem::path file, std::uint64_t budget) : file_(std::move(file)) {
  try {
    open_ = open_regular(file_.native());
    if (open_.size <= std::max<std::uint64_t>(budget, 2 * kStretch)) {
      whole_.emplace(std::move(open_.descriptor), kLongestTelemetryLine);
      return;
    }
    stretches_ = std::max<std::uint64_t>(1, budget / kStretch);
    text_.resize(kStretch);
    at_ = text_.size();
  } catch (const Error& error) {
    throw Error(printable(file_.native()) + " " + error.what());
  }
}

bool LineSource::next(std::string_view& line) {
  try {
    if (whole_) {
      if (!whole_->next(line_)) return false;
      line = line_;
      return true;
    }
    while (true) {
      const char* const from = text_.data() + at_;
      const auto* const newline = static_cast<const char*>(std::memchr(from, '\n', text_.size() - at_));
      if (newline == nullptr) {
        if (!next_stretch()) return false;
        continue;
      }
      line = {from, static_cast<std::size_t>(newline - from)};
      line_at_ = at_;
      at_ += line.size() + 1;
      return true;
    }
  } catch (const Error& error) {
    throw Error(printable(file_.native()) + " " + error.what());
  }
}

// Stretches begin with the first whole line in them.
// The first stretch begins at byte 0 and the last ends at the file's end.
bool LineSource::next_stretch() {
  if (stretch_ == stretches_) return false;
  const std::uint64_t last = open_.size - text_.size();
  begin_ = stretches_ == 1 ? 0 : last / (stretches_ - 1) * stretch_;
  ++stretch_;
  read_at(open_.descriptor, begin_, std::as_writable_bytes(std::span(text_)));
  const auto* const newline = static_cast<const char*>(std::memchr(text_.data(), '\n', text_.size()));
  at_ = begin_ == 0 ? 0 : newline == nullptr ? text_.size() : static_cast<std::size_t>(newline - text_.data()) + 1;
  return true;
}

std::string LineSource::place() const {
  const std::string name = printable(file_.native());
  return whole_ ? name + ":" + std::to_string(whole_->number())
                : name + ": the line at byte " + std::to_string(begin_ + line_at_);
}

}  // namespace forebay::report
