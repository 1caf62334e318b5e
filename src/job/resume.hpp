#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/dataset.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>

#include "order/job_state.hpp"
#include "order/ledger.hpp"

// Resuming from a saved state: reading and making one, and whether it belongs to this run.
namespace forebay::job {

// The settings that decide which batches there are, pixels included, by full name of the key, as TOML: two runs must
// have them in common.
[[nodiscard]] std::map<std::string, std::string> batch_settings(const Options& options);

// Adds the keys of these full names.
void add_settings(std::map<std::string, std::string>& settings, const Options& options,
                  std::span<const std::string_view> names);

// A job's state as it was saved, and where it came from, for messages.
struct SavedState {
  std::string text;
  std::string source;
};

// The state in `file`, which rank 0 reads, on every rank; nothing when there is no such file, or "" on rank 0. The
// other ranks' `file` is not looked at. Collective and blocking. Throws ConfigError on all ranks alike.
[[nodiscard]] std::optional<SavedState> share_state(const std::filesystem::path& file, Communicator& communicator);

// Where a run begins: at its beginning, or where a saved job was.
class ResumePoint {
 public:
  ResumePoint() = default;
  // Throws ConfigError as parse_state(), and in an evaluation, which begins at the beginning.
  ResumePoint(SavedState saved, const Options& options);

  [[nodiscard]] bool is_saved() const noexcept { return !saved_.source.empty(); }
  [[nodiscard]] const SavedState& saved() const noexcept { return saved_; }
  // Steps that each rank had made, and samples that the job had served fresh; 0 at the beginning.
  [[nodiscard]] std::uint64_t steps() const noexcept { return job_.steps; }
  [[nodiscard]] std::uint64_t fresh_samples() const noexcept { return job_.fresh_samples; }
  // dataset.nodes of the saved job; 0: there is none.
  [[nodiscard]] std::int64_t parts() const noexcept;
  // The run was over by then.
  [[nodiscard]] bool is_end_of(const RunOptions& run) const noexcept;
  // Throws ConfigError naming the source and the first thing in which the saved job differs from `ours`, which
  // begin_state() made.
  void require_same_job(const order::JobState& ours) const;
  // What is left to serve. Once: the ranges move.
  [[nodiscard]] order::Ledger take_ledger(const order::Partition& partition);
  // "resumes from FILE: step 40, ...".
  [[nodiscard]] std::string describe() const;

 private:
  SavedState saved_;
  order::JobState job_;
};

// What one rank adds to the state of its job.
struct RankPart {
  std::uint64_t steps = 0;              // that it has made since the beginning of the run
  std::uint64_t fresh_samples = 0;      // that it has served since this process began
  std::vector<order::BatchRange> left;  // not served
  bool has_lost = false;                // a batch that it served, when its device failed
};

// What a state begins with: all but what changes from step to step. Goes through the whole index.
[[nodiscard]] order::JobState begin_state(const Options& options, const Dataset& dataset, const Order& order,
                                          std::uint32_t ranks);

// The state of the job with every rank's part, on every rank. `state`: from begin_state(), with `opened` as it is and
// `fresh_samples` as of the origin. Collective and blocking. Throws Error on all ranks alike when they are not at the
// same step, or one has lost a batch.
[[nodiscard]] order::JobState gather_state(order::JobState state, const RankPart& mine, Communicator& communicator);

}  // namespace forebay::job
