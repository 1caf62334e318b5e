#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

#include "measure/run_log.hpp"
#include "time_bins.hpp"

namespace forebay::report {

// What one rank's telemetry says.
struct RankData {
  std::uint32_t rank = 0;
  std::optional<measure::RunHead> head;  // the last one: a run that resumed has several
  std::uint32_t parts = 0;               // how often it began or resumed
  bool has_ended = false;                // its last line is written
  std::optional<Summary> summary;
  std::optional<Profile> profile;
  TimeBins bins;  // by the time since its first batch, times of its parts added up
  double end_s = 0;
  std::uint64_t last_step = 0;
  std::uint64_t begun_at = 0;                 // the step that its log begins with
  std::optional<std::uint64_t> first_step{};  // the first that its records know of
  bool has_earlier = false;                   // records made way for others at least once
  std::uint32_t capacity = 0;                 // queue.capacity, or the most batches that were ready
  std::uint64_t stretches = 0;                // of its file, which stand for the rest; 0 = all was read
  std::string foreign = {};  // the last line of its log, if another Forebay with other figures wrote it
  std::string cut;           // the first line within a file that is not whole: a writer was killed there
};

// What a run's folder says.
struct RunData {
  std::filesystem::path folder;
  std::string name;                // for people; differs between the runs of a report
  std::vector<RankData> ranks;     // those with telemetry, ascending; at least one
  std::uint32_t expected = 0;      // ranks of the job
  std::string read_from;           // "steps" or "intervals"
  std::string last_written;        // UTC; when a file of the run last changed
  std::vector<std::string> notes;  // what a reader should know about the data: each a sentence

  // The ranks together, in bins of the same width as theirs.
  std::vector<Bin> job;
  double width_s = 0;
  double end_s = 0;
  std::uint32_t capacity = 0;

  [[nodiscard]] const measure::Settings& settings() const noexcept;
  [[nodiscard]] std::string setting(const std::string& key) const;  // "" where it is not known
  [[nodiscard]] bool has_ended() const noexcept;
  [[nodiscard]] bool is_sampled() const noexcept;
  // Of the job; nothing as long as a rank has not ended.
  [[nodiscard]] std::optional<Summary> summary() const;
  [[nodiscard]] std::vector<Profile> profiles() const;
};

// How much is read of what a run wrote. A larger file is read in stretches.
struct ReadLimits {
  std::uint64_t steps = std::uint64_t{1} << 30;      // bytes of all ranks' steps; where there are more, intervals do
  std::uint64_t intervals = std::uint64_t{4} << 30;  // bytes of all ranks' intervals
};

// Reads the folder of a run that has ended, or is still going. `progress` may be empty; it is called with ranks done
// and all ranks. Throws Error naming file and line, or what is missing, and what to do.
[[nodiscard]] RunData read_run(const std::filesystem::path& folder, const ReadLimits& limits,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress);

// Gives runs names that differ: the last part of their folders, or as much as it takes.
void name_runs(std::vector<RunData>& runs);

}  // namespace forebay::report
