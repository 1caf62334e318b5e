// A leaky bucket in units of batches: it fills at nine tenths of the pace of fresh steps for as
// long as the producer works, and each batch that arrives takes one out; it never falls below
// empty. Its level is the number of batches that a queue would have needed in reserve. One call per
// step by the server, on the trainer's thread; no clocks but those of the signals, so the simulator
// runs the same code. For the reasons and measurements see
// docs/decisions/0022-a-queue-that-grows.md.

#include "queue_growth.hpp"

#include <algorithm>
#include <cmath>

namespace forebay::ring {

// A few steps give no pace yet: until then the bucket does not fill, and nothing grows.
double QueueGrowth::pace() const noexcept { return fresh_ < kFewest || fresh_s_ <= 0 ? 0 : fresh_ / fresh_s_; }

// Every source is one batch behind now and then. Computed in double, and compared before it is
// converted: after a long outage it may exceed 32 bits.
std::uint32_t QueueGrowth::needed() const noexcept {
  if (behind_ < 1) return 0;
  const double batches = std::ceil(static_cast<double>(kLeastCapacity) + kReserve * (behind_ - 1));
  return batches < most_ ? static_cast<std::uint32_t>(batches) : most_;
}

// The order matters: the bucket is filled and judged before the batches that arrived with this step
// are taken out of it, because the step had to do without them.
std::uint32_t QueueGrowth::decided(Decision decision, const Signals& signals) noexcept {
  const double worked_s = signals.now_s - signals.blocked_s;
  behind_ += kPace * pace() * std::max(0.0, worked_s - worked_s_);
  const bool has_waited = decision == Decision::fresh && signals.waited_s > 0;
  // What the producer would have made in the time since the last wait in which a full queue blocked
  // it: only that much can a larger queue hold in reserve for a policy that waits.
  const double spare_batches =
      worked_s > 0 ? (signals.blocked_s - spared_s_) * static_cast<double>(signals.produced) / worked_s : 0;
  const bool would_help = decision == Decision::reuse || (has_waited && spare_batches >= 1);
  if (would_help && needed() > capacity_) capacity_ = std::min(most_, std::max(2 * capacity_, needed()));
  if (has_waited) spared_s_ = signals.blocked_s;

  behind_ = std::max(0.0, behind_ - static_cast<double>(signals.produced - produced_));
  produced_ = signals.produced;
  worked_s_ = worked_s;
  if (decision == Decision::fresh) {
    fresh_ = fresh_ * kKept + 1;
    fresh_s_ = fresh_s_ * kKept + (signals.now_s - last_fresh_s_);
    last_fresh_s_ = signals.now_s;
  }
  return capacity_;
}

}  // namespace forebay::ring
