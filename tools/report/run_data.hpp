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

// The telemetry of one rank.
struct RankData {
  std::uint32_t rank = 0;
  std::optional<measure::RunHead> head;  // of the last part: a resumed run has several
  std::uint32_t parts = 0;               // how often the run was started or resumed
  bool has_ended = false;                // its log has the last line
  std::optional<Summary> summary;
  std::optional<Profile> profile;
  TimeBins bins;  // by time since its first batch; the times of its parts are added up
  double end_s = 0;
  std::uint64_t last_step = 0;
  std::uint64_t begun_at = 0;                 // the first step of its first part
  std::optional<std::uint64_t> first_step{};  // the first step in its records
  bool has_earlier = false;                   // older records were dropped (telemetry.max_bytes)
  std::uint32_t capacity = 0;                 // the capacity or the most batches ready
  std::uint64_t stretches = 0;                // stretches of its file that were read; 0: all
  std::string failure = {};                   // the error that ended it
  std::string foreign = {};                   // where its log ends, if a Forebay with other figures wrote that line
  std::string cut;                            // where the first line is that a killed writer cut short

  [[nodiscard]] bool begins_late() const noexcept { return has_earlier && first_step.value_or(0) > begun_at; }
};

// A run, read from its folder.
struct RunData {
  std::filesystem::path folder;
  std::string name;                // for people; differs between the runs of a report
  std::vector<RankData> ranks;     // those with telemetry, ascending; at least one
  std::uint32_t expected = 0;      // ranks of the job
  std::string read_from;           // "steps" or "intervals"
  std::string last_written;        // UTC; when a file of the run last changed
  std::vector<std::string> notes;  // what a reader should know about the data, in sentences

  // All ranks added up, in bins as wide as theirs.
  std::vector<Bin> job;
  double width_s = 0;
  double end_s = 0;
  std::uint32_t capacity = 0;

  [[nodiscard]] const measure::Settings& settings() const noexcept;
  [[nodiscard]] std::string setting(const std::string& key) const;  // "" where it is not known
  [[nodiscard]] bool has_ended() const noexcept;
  [[nodiscard]] bool is_sampled() const noexcept;
  // What follows a figure of its records: " (of what is shown)" where earlier ones were dropped.
  [[nodiscard]] std::string of_shown() const;
  // The job's summary; nothing as long as any rank has not ended.
  [[nodiscard]] std::optional<Summary> summary() const;
  [[nodiscard]] std::vector<Profile> profiles() const;
};

// How much of a run's telemetry is read. Of more, stretches are read.
struct ReadLimits {
  std::uint64_t steps = std::uint64_t{1} << 30;      // bytes of all ranks' steps; if there are more, intervals are read
  std::uint64_t intervals = std::uint64_t{4} << 30;  // bytes of all ranks' intervals
};

// Throws Error if it is no folder that can be looked into.
void require_run_folder(const std::filesystem::path& folder);

// Reads the folder of a run that has ended or is still going. `progress` may be empty; it is called
// with the number of ranks read and of all ranks. Throws Error naming file and line, or what is
// missing, and what to do.
[[nodiscard]] RunData read_run(const std::filesystem::path& folder, const ReadLimits& limits,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress);

// Gives each run a different name: the last part of its folder, or as many parts as needed.
void name_runs(std::vector<RunData>& runs);

}  // namespace forebay::report
