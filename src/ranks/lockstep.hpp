#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <forebay/policy.hpp>

#include "census.hpp"

namespace forebay::ranks {

// What a policy is told under mpi.mode = "lockstep": only what all ranks know alike, so that all decide alike. At step
// k that is census k - lag, in which each rank said how many batches it had ready before that step, less the fresh
// decisions since. A batch that every rank had and that no decision has taken is still there: a policy that is fresh
// only while the depth it is told is above 0 never makes a rank wait.
// One thread, that of next(). Allocates in the constructor only.
class Lockstep {
 public:
  // Of a job of `ranks`, with census results `lag` steps late. REQUIRES: queue.capacity > lag; queue.pool is a number.
  Lockstep(std::uint32_t ranks, std::size_t lag, const QueueOptions& queue, Pick pick);

  // The signals for the step that begins now. `heard`: the census that is due, null in the first `lag` steps, of which
  // nothing is known: their depth is 0, but for the first, whose batch every rank has.
  // Throws Error when the ranks have not decided alike so far.
  [[nodiscard]] Signals signals(const JobReport* heard);
  // What was decided for this step, once.
  void served(Decision decision);

  // What this rank says of itself at the step that begins now.
  void reports(const Progress& mine) noexcept {
    if (mine.ready >= Progress::kIdle) idle_in_ = step_;
  }
  // This rank had nothing to be counted in what was heard, and may lack a batch that the signals promise.
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
  std::uint64_t produced_ = 1;               // last known
  std::optional<std::uint64_t> idle_in_;     // the last step in which this rank had nothing to serve
  std::vector<std::uint64_t> fresh_before_;  // [step mod (lag + 1)]: fresh decisions of all steps before it
  // The pool as the decisions alone make it. A rank's own may differ where it was padded.
  std::vector<Resident> pool_;
};

}  // namespace forebay::ranks
