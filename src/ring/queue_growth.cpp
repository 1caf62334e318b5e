#include "queue_growth.hpp"

#include <algorithm>
#include <cmath>

namespace forebay {

double QueueGrowth::pace() const noexcept { return fresh_ < kFewest || fresh_s_ <= 0 ? 0 : fresh_ / fresh_s_; }

std::uint32_t QueueGrowth::needed() const noexcept {
  if (behind_ < 1) return 0;
  const double batches = std::ceil(static_cast<double>(kLeastCapacity) + kReserve * (behind_ - 1));
  return batches < most_ ? static_cast<std::uint32_t>(batches) : most_;
}

std::uint32_t QueueGrowth::decided(Decision decision, const Signals& signals) noexcept {
  const double worked_s = signals.now_s - signals.blocked_s;
  behind_ += kPace * pace() * std::max(0.0, worked_s - worked_s_);
  const bool has_waited = decision == Decision::fresh && signals.waited_s > 0;
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

}  // namespace forebay
