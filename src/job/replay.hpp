#pragma once

#include <cstdint>
#include <filesystem>

#include <forebay/options.hpp>

#include "measure/recording.hpp"
#include "order/job_state.hpp"
#include "settings.hpp"

// Recordings, as used by the feeder: what goes into one, and whether one belongs to this run.
namespace forebay::job {

// Evaluation uses no policy, so it has nothing to record or repeat.
[[nodiscard]] bool is_recorded(const Options& options) noexcept;
[[nodiscard]] bool is_replay(const Options& options) noexcept;

// The head of a recording of this run. `first_step`: above 0 if the run resumes from a saved state.
// `job`: made by begin_state().
[[nodiscard]] measure::RecordingHeader recording_header(const Options& options, const order::JobState& job,
                                                        std::uint32_t rank, std::uint64_t first_step);

// Records the kind of loop: ranks that end each epoch together serve padding where others would not.
void note_loop(measure::RecordingHeader& header, bool by_epochs);
// For a simulated run, which has no ends of epochs: a run of either kind may repeat it.
void note_any_loop(measure::RecordingHeader& header);

// The options from which the policy and its rules are made. A replay's recording becomes this rank's file, and rules
// that would change decisions are off, because the recording contains their effects.
[[nodiscard]] PolicyOptions policy_options(const Options& options, std::uint32_t rank, std::uint64_t first_step);

// The recording that a replay follows, as far as the feeder needs it.
class ReplayedRun {
 public:
  // Reads this rank's file. Throws ConfigError naming policy.recording and the file if it is of another rank or number
  // of ranks, or if telemetry would overwrite the recording. REQUIRES: is_replay(options).
  ReplayedRun(const Options& options, std::uint32_t rank, std::uint32_t ranks, std::uint64_t first_step);

  // Throws ConfigError naming the first setting in which the recorded run and `ours`, made by begin_state(), differ, or
  // the dataset.
  void require_same_run(const order::JobState& ours) const;
  // Throws ConfigError if the run was recorded in the other kind of loop and has several ranks.
  void require_loop(bool by_epochs) const;
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  std::filesystem::path file_;
  measure::RecordingHeader header_;
  Settings decisive_;
  std::uint64_t steps_ = 0;
};

}  // namespace forebay::job
