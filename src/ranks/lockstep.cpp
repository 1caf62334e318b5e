// Turns the census of `lag` steps ago into the signals of this step. What each rank had ready then
// is known, and the fresh decisions since are known because all ranks made the same ones: so the
// least depth less those decisions is a number of batches that every rank certainly has. The pool
// of resident batches is simulated from the decisions in the same way. A rank's real queue may hold
// more; it is never asked, because ranks would then decide differently. On the thread of next(); no
// allocation after the constructor.

#include "lockstep.hpp"

#include <algorithm>
#include <string>

#include <forebay/error.hpp>

namespace forebay::ranks {
namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

Lockstep::Lockstep(std::uint32_t ranks, std::size_t lag, const QueueOptions& queue, Pick pick)
    : ranks_(ranks),
      capacity_(static_cast<std::uint32_t>(queue.capacity)),
      pool_size_(static_cast<std::size_t>(queue.pool)),
      pick_(pick),
      fresh_before_(lag + 1) {
  pool_.reserve(pool_size_);
}

// Fresh decisions times ranks must equal the reported sum: the cheapest proof that all have decided
// alike, checked at every step.
Signals Lockstep::signals(const JobReport* heard) {
  fresh_before_[step_ % fresh_before_.size()] = fresh_;
  Signals signals{.step = step_,
                  .depth = step_ == 0 ? 1U : 0U,
                  .capacity = capacity_,
                  .uses = pool_.empty() ? 0 : pool_[pick_resident(pick_, pool_)].uses,
                  .produced = produced_};
  if (heard == nullptr || step_ == 0) return signals;
  const std::uint64_t fresh_then = fresh_before_[heard->step % fresh_before_.size()];
  if (heard->fresh != static_cast<std::int64_t>(fresh_then * ranks_)) {
    throw Error("mpi.mode = \"lockstep\": the ranks have not decided alike before step " + std::to_string(heard->step) +
                ": a policy depends on something that ranks do not share");
  }
  const Progress& least = heard->least;
  const auto taken = static_cast<std::int64_t>(fresh_ - fresh_then);
  if (least.ready == Progress::kDrained) {
    signals.depth = capacity_;  // nobody has anything to spare
  } else if (least.ready != Progress::kIdle) {
    signals.depth = static_cast<std::uint32_t>(std::max<std::int64_t>(least.ready - taken, 0));
  }
  // Never fewer than before, because a rank that had nothing left for a while may have produced
  // less than the others since.
  if (least.produced != Progress::kDrained) produced_ = std::max(produced_, static_cast<std::uint64_t>(least.produced));
  signals.produced = produced_;
  signals.now_s = seconds(least.now_ns);
  signals.blocked_s = seconds(least.blocked_ns);
  return signals;
}

// Like ReusePool: the oldest leaves, and a reuse adds to the uses of the one picked.
void Lockstep::served(Decision decision) {
  ++step_;
  if (decision == Decision::reuse) {
    ++pool_[pick_resident(pick_, pool_)].uses;
    return;
  }
  if (pool_.size() == pool_size_) pool_.erase(pool_.begin());
  pool_.push_back({.uses = 1, .turn = ++fresh_});
}

}  // namespace forebay::ranks
