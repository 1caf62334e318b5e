#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/dataset.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>

#include "order/job_state.hpp"
#include "order/ledger.hpp"

// Resuming from a saved state: reading and making states, and checking whether one belongs to this run.
namespace forebay::job {

// A saved state of a job, and its source, for messages.
struct SavedState {
  std::string text;
  std::string source;
};

// The state in `file`, read by rank 0, on every rank; nothing if there is no such file, or "" on rank 0. The other
// ranks' `file` is ignored. Collective and blocking. Throws ConfigError on all ranks alike.
[[nodiscard]] std::optional<SavedState> share_state(const std::filesystem::path& file, Communicator& communicator);

// Where a run starts: at the beginning, or at the position of a saved job.
class ResumePoint {
 public:
  ResumePoint() = default;
  // Throws ConfigError like parse_state(), and in an evaluation, which always starts at the beginning.
  ResumePoint(SavedState saved, const Options& options);

  [[nodiscard]] bool is_saved() const noexcept { return !saved_.source.empty(); }
  [[nodiscard]] const SavedState& saved() const noexcept { return saved_; }
  // Steps that each rank had made, and samples that the job had served fresh; 0 at the beginning.
  [[nodiscard]] std::uint64_t steps() const noexcept { return job_.steps; }
  [[nodiscard]] std::uint64_t fresh_samples() const noexcept { return job_.fresh_samples; }
  // dataset.nodes of the saved job; 0: there is none.
  [[nodiscard]] std::int64_t parts() const noexcept;
  // Whether the saved run was already over.
  [[nodiscard]] bool is_end_of(const RunOptions& run) const noexcept;
  // Throws ConfigError naming the source and the first difference between the saved job and `ours`, made by
  // begin_state().
  void require_same_job(const order::JobState& ours) const;
  // What is left to serve. May be called once, because it moves the ranges.
  [[nodiscard]] order::Ledger take_ledger(const order::Partition& partition);
  // "resumes from FILE: step 40, ...".
  [[nodiscard]] std::string describe() const;
  // The same with advice, if the run of that state was complete.
  [[nodiscard]] std::string describe_complete() const;

 private:
  SavedState saved_;
  order::JobState job_;
};

// One rank's part of the state of its job.
struct RankPart {
  std::uint64_t steps = 0;              // that it has made since the beginning of the run
  std::uint64_t fresh_samples = 0;      // that it has served since this process began
  std::vector<order::BatchRange> left;  // not served
  bool has_lost = false;                // a batch that it served, when its device failed
};

// The start of a state: everything that does not change from step to step. Reads the whole index.
[[nodiscard]] order::JobState begin_state(const Options& options, const Dataset& dataset, const Order& order,
                                          std::uint32_t ranks);

// The state of the job with every rank's part, on every rank. `state`: from begin_state(), with the current `opened`
// and the starting point's `fresh_samples`. Collective and blocking. Throws Error on all ranks alike if they are not at
// the same step, or one has lost a batch.
[[nodiscard]] order::JobState gather_state(order::JobState state, const RankPart& mine, Communicator& communicator);

}  // namespace forebay::job
