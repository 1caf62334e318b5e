#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <forebay/policy.hpp>

#include "census.hpp"

namespace forebay::ranks {

// The signals for a policy under mpi.mode = "lockstep": only what all ranks know alike, so that all decide alike. At
// step k that is census k - lag, in which each rank reported how many batches it had ready before that step, minus the
// fresh decisions since. A batch that every rank had and that no decision has taken is still there, so a policy that
// decides fresh only while the given depth is above 0 never makes a rank wait. Used by the thread that calls next().
// Allocates in the constructor only.
class Lockstep {
 public:
  // For a job of `ranks` ranks, with census results `lag` steps late. REQUIRES: queue.capacity > lag; queue.pool is a
  // number.
  Lockstep(std::uint32_t ranks, std::size_t lag, const QueueOptions& queue, Pick pick);

  // The signals for the step that begins now. `heard`: the census that is due; null in the first `lag` steps, about
  // which nothing is known: their depth is 0, except for the first, whose batch every rank has. Throws Error if the
  // ranks have not decided alike so far.
  [[nodiscard]] Signals signals(const JobReport* heard);
  // Records the decision for this step. Called once.
  void served(Decision decision);

  // Records this rank's own report for the step that begins now.
  void reports(const Progress& mine) noexcept {
    if (mine.ready >= Progress::kIdle) idle_in_ = step_;
  }
  // Whether this rank had nothing to contribute to `heard`, so that it may lack a batch that the signals promise.
  [[nodiscard]] bool is_left_out(const JobReport* heard) const noexcept {
    return heard != nullptr && idle_in_ && heard->step <= *idle_in_;
  }

  // Fresh decisions so far, for the report.
  [[nodiscard]] std::int64_t fresh() const noexcept { return static_cast<std::int64_t>(fresh_); }

 private:
  std::uint32_t ranks_;
  std::uint32_t capacity_;
  std::size_t pool_size_;
  Pick pick_;
  std::uint64_t step_ = 0;
  std::uint64_t fresh_ = 0;
  std::uint64_t produced_ = 1;               // the last known number
  std::optional<std::uint64_t> idle_in_;     // the last step in which this rank had nothing to serve
  std::vector<std::uint64_t> fresh_before_;  // [step mod (lag + 1)]: fresh decisions of all steps before it
  // The pool as it follows from the decisions alone. A rank's own may differ if it was padded.
  std::vector<Resident> pool_;
};

}  // namespace forebay::ranks
