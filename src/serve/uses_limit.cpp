#include <algorithm>
#include <cmath>
#include <limits>

#include <forebay/policy.hpp>

namespace forebay {
namespace {

// docs/decisions/0024-uses-have-a-limit.md says where these come from.
constexpr double kTimesAsOften = 4;  // as a batch is used while storage delivers
constexpr double kWindow = 64;       // batches and steps
constexpr double kEnough = 8;        // of them, before anything is limited
constexpr double kLongest = 8;       // a silence counts as so many mean times of a batch at most

}  // namespace

void UsesLimit::Mean::add(double value, double weight) noexcept {
  weight_ = std::min(weight_ + weight, std::max(kWindow, weight));
  value_ += (value - value_) * weight / weight_;
}

std::uint64_t UsesLimit::now() const noexcept {
  if (max_uses_ != kAutomatic) return static_cast<std::uint64_t>(std::max<std::int64_t>(max_uses_, 0));
  if (log_step_s_.weight() < kEnough || batch_s_.weight() < kEnough) return 0;
  const double ratio = batch_s_.value() / std::exp(log_step_s_.value());
  const double most = std::ceil(kTimesAsOften * std::max(1.0, ratio));
  return most < static_cast<double>(std::numeric_limits<std::int32_t>::max()) ? static_cast<std::uint64_t>(most) : 0;
}

void UsesLimit::served(const Signals& signals) noexcept {
  if (max_uses_ != kAutomatic) return;
  const double unblocked_s = signals.now_s - signals.blocked_s;
  if (signals.now_s <= 0) {
    // Before the clock runs: in lockstep for some steps, in which the queues fill.
    produced_ = signals.produced;
    unblocked_s_ = unblocked_s;
    return;
  }
  // Logarithms, because single steps take far longer than all others: the first, and those before which a model was
  // evaluated. A trainer that waits is not slow.
  const double own_s = signals.now_s - now_s_ - signals.waited_s;
  if (own_s > 0) log_step_s_.add(std::log(own_s), 1);
  now_s_ = signals.now_s;
  // Batches that came in no time, as while a full queue stopped the producer, count with the next.
  if (signals.produced == produced_ || unblocked_s <= unblocked_s_) return;
  batches_arrived(static_cast<double>(signals.produced - produced_), unblocked_s - unblocked_s_);
  produced_ = signals.produced;
  unblocked_s_ = unblocked_s;
}

void UsesLimit::batches_arrived(double batches, double seconds) noexcept {
  const double each = seconds / batches;
  const bool is_first = batch_s_.weight() == 0;
  batch_s_.add(is_first ? each : std::min(each, kLongest * batch_s_.value()), batches);
}

}  // namespace forebay
