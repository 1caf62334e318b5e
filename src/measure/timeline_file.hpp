#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.hpp"
#include "base/timeline.hpp"

namespace forebay::measure {

// The tracks of a rank's threads, and the file that they are written to: a JSON array of events in
// Chrome's Trace Event Format, which Perfetto also reads. Timestamps are of the steady clock, so
// that the arrays of the ranks of one node can be merged.
class Timeline {
 public:
  static constexpr std::size_t kEventsPerThread = std::size_t{1} << 15;

  // Opens the file: `file` for a single rank, "NAME.RANK.EXTENSION" for one of several. Tracks
  // accept events for `seconds` from now. Throws ConfigError with path and cause.
  Timeline(const std::filesystem::path& file, double seconds, std::uint32_t rank, std::uint32_t ranks);

  // A track for one thread; lives as long as this object. Called on the thread that constructed it.
  [[nodiscard]] TimelineTrack& track(std::string name);

  // Writes the file, and returns a line for people: where it is and what was left out. Throws Error
  // with path and cause. REQUIRES: no thread adds events any more.
  [[nodiscard]] std::string write();

 private:
  void put(std::string_view text) const;

  std::filesystem::path file_;
  FileDescriptor out_;
  double seconds_;
  std::uint32_t rank_;
  std::int64_t begin_ns_;
  std::vector<std::unique_ptr<TimelineTrack>> tracks_;
};

}  // namespace forebay::measure
