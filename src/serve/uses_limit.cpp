// policy.max_uses = "auto": how often a batch may be used, as a multiple of how often it has to be
// while storage delivers. Two means are kept, the time of a batch and the time of a step without
// waits; their ratio is R, and the limit is 4 * max(1, R), rounded up. One call per step with that
// step's signals, on the trainer's thread; no clock of its own, so the simulator runs the same
// code.
//
// A batch's time is an arithmetic mean, so that pauses count, but a single silence counts no more
// than eight means: the limit must not rise with the very outage that it is there for.

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

UsesLimit::UsesLimit(std::int64_t max_uses) noexcept
    : is_automatic_(max_uses == kAutomatic), limit_(max_uses > 0 ? static_cast<std::uint64_t>(max_uses) : 0) {}

// A mean whose older values fade once their weight exceeds the window; a value heavier than the
// window counts in full.
void UsesLimit::Mean::add(double value, double weight) noexcept {
  weight_ = std::min(weight_ + weight, std::max(kWindow, weight));
  value_ += (value - value_) * weight / weight_;
}

// Learns from the stretch between two arrivals, which is when the counts of batches and of steps
// are known to be exact.
void UsesLimit::arrived(const Signals& signals) noexcept {
  const double unblocked_s = signals.now_s - signals.blocked_s;
  // Before the clock starts, which in lockstep takes some steps, the queues are filling, which says
  // nothing.
  if (signals.now_s > 0) {
    // Batches that arrived in no producer time, for example while a full queue blocked it, count
    // with the next one.
    if (unblocked_s <= unblocked_s_) return;
    learn_batches(static_cast<double>(signals.produced - produced_), unblocked_s - unblocked_s_);
    // A trainer that waits is not slow.
    learn_steps(static_cast<double>(signals.step - step_), signals.now_s - now_s_ - waited_s_);
    limit_ = found();
  }
  step_ = signals.step;
  produced_ = signals.produced;
  now_s_ = signals.now_s;
  unblocked_s_ = unblocked_s;
  waited_s_ = 0;
}

void UsesLimit::learn_batches(double batches, double seconds) noexcept {
  const double each = seconds / batches;
  const bool is_first = batch_s_.weight() == 0;
  batch_s_.add(is_first ? each : std::min(each, kLongest * batch_s_.value()), batches);
}

// Logarithms, because single steps take far longer than all others: the first one, and those that
// follow an evaluation.
void UsesLimit::learn_steps(double steps, double seconds) noexcept {
  if (steps > 0 && seconds > 0) log_step_s_.add(std::log(seconds / steps), steps);
}

// 0 means "no limit": until enough has been observed, and if the limit would not fit its type.
std::uint64_t UsesLimit::found() const noexcept {
  if (batch_s_.weight() < kEnough || log_step_s_.weight() < kEnough) return 0;
  const double ratio = batch_s_.value() / std::exp(log_step_s_.value());
  const double most = std::ceil(kTimesAsOften * std::max(1.0, ratio));
  return most < static_cast<double>(std::numeric_limits<std::int32_t>::max()) ? static_cast<std::uint64_t>(most) : 0;
}

}  // namespace forebay
