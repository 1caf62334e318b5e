#pragma once

#include <cstdint>
#include <filesystem>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include "measure/recording.hpp"

// Recordings, as used by the feeder: what goes into one, and whether one belongs to this run.
namespace forebay::job {

// Evaluation uses no policy, so it has nothing to record or repeat.
[[nodiscard]] bool is_recorded(const Options& options) noexcept;
[[nodiscard]] bool is_replay(const Options& options) noexcept;

// The head of a recording of this run. `first_step`: above 0 if the run resumes from a saved state.
[[nodiscard]] measure::RecordingHeader recording_header(const Options& options, const Dataset& dataset,
                                                        std::uint32_t rank, std::uint32_t ranks,
                                                        std::uint64_t first_step);

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
  // Reads this rank's file and compares everything except the dataset, which need not be open yet. Throws ConfigError
  // naming policy.recording, the file, and what differs; also if telemetry would overwrite the recording. REQUIRES:
  // is_replay(options).
  ReplayedRun(const Options& options, std::uint32_t rank, std::uint32_t ranks, std::uint64_t first_step);

  // Throws ConfigError if the run was recorded with another dataset.
  void require_dataset(const Dataset& dataset) const;
  // Throws ConfigError if the run was recorded in the other kind of loop and has several ranks.
  void require_loop(bool by_epochs) const;
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  std::filesystem::path file_;
  measure::RecordingHeader header_;
  std::uint64_t steps_ = 0;
};

}  // namespace forebay::job
