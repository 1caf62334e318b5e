// The default policy. It estimates the source's rate and the trainer's step time. From these each
// step earns credit: the number of batches that the source delivers in the time of a step. A fresh
// batch costs 1. A correction by the queue's depth keeps a reserve of about two thirds of the
// queue. The reserve shrinks if the source keeps up by itself, and if a full queue blocks the
// producer.
//
// The policy is called once per step on the trainer's thread with the signals of that step, and is
// told what was served. It uses no clock and no randomness, so the simulator, and all ranks in
// lockstep, make the same decisions from the same signals.
//
// docs/decisions/0006-adaptive.md has the reasons and the origin of the constants: a random search
// at R = 1.5, 3 and 6, checked from 0.2 to 50.

#include <algorithm>
#include <cmath>

#include <forebay/policy.hpp>

namespace forebay::policies {
namespace {

// Batches per second of unblocked time, as an exponential average over a window of batches. The
// weight of a batch falls by a factor of e per window of later batches, not per time, so a slow
// source is not forgotten sooner.
class RateEstimate {
 public:
  explicit RateEstimate(double window) : window_(window) {}

  void add(double batches, double seconds) noexcept {
    const double kept = std::exp(-batches / window_);
    batches_ = batches_ * kept + batches;
    seconds_ = seconds_ * kept + seconds;
  }
  // The rate as it would be after add(batches, seconds).
  [[nodiscard]] double rate(double batches, double seconds) const noexcept {
    return (batches_ + batches) / (seconds_ + seconds);
  }
  void take_over(const RateEstimate& other) noexcept {
    batches_ = other.batches_;
    seconds_ = other.seconds_;
  }

 private:
  double window_;
  double batches_ = 0;
  double seconds_ = 0;
};

// Rate matching. Each step earns an estimated lambda / mu credit times a correction for the depth;
// when the credit reaches 1, a fresh batch is served, which costs 1. With an exact estimate and a
// correction of 1, fresh steps would be as even as whole steps can be.
class Adaptive final : public Policy {
 public:
  Decision decide(const Signals& signals) override {
    // Making room for the producer comes first, and already at one batch below full: otherwise the
    // queue would fill before the next step, and the producer would be blocked for the rest of
    // every step.
    if (signals.depth + 1 >= std::max(2U, signals.capacity)) return Decision::fresh;
    return signals.depth > 0 && credit_ + earned(signals) >= 1 ? Decision::fresh : Decision::reuse;
  }

  void served(Decision decision, const Signals& signals) override {
    // Decisions by other rules, and a full or empty queue, must not leave so much debt or credit
    // that it takes many steps to work off.
    credit_ = std::clamp(credit_ + earned(signals) - (decision == Decision::fresh ? 1 : 0), -1.0, 1.0);
    learn(signals);
  }

 private:
  // docs/decisions/0006-adaptive.md says where these come from.
  static constexpr double kLongWindow = 128;     // batches
  static constexpr double kShortWindow = 16;     // batches
  static constexpr double kChange = 3;           // rates that differ by this factor are different sources
  static constexpr double kStepWindow = 64;      // steps
  static constexpr double kBlockedWindow = 256;  // steps
  static constexpr double kSetPoint = 0.7;       // share of the capacity, less one batch
  static constexpr double kLoss = 8;             // how strongly blocking lowers the set point
  static constexpr double kLinear = 0.5;         // coefficient of the correction's linear term
  static constexpr double kCubic = 0.6;
  static constexpr double kSpread = 0.6;       // share of the remaining batches
  static constexpr double kSlowest = 1. / 16;  // of the rate at which the source delivers

  // The producer's own clock, which stops while a full queue blocks it.
  [[nodiscard]] static double unblocked(const Signals& signals) noexcept { return signals.now_s - signals.blocked_s; }
  [[nodiscard]] double batches_since(const Signals& signals) const noexcept {
    return static_cast<double>(signals.produced - produced_);
  }

  // Time since the last step without waits for a batch: a trainer that waits is not slow.
  [[nodiscard]] double own_time(const Signals& signals) const noexcept {
    return signals.now_s - now_s_ - signals.waited_s;
  }

  [[nodiscard]] double step_s(const Signals& signals) const noexcept {
    return (step_seconds_ + own_time(signals)) / (steps_ + 1);
  }

  // Batches that the source delivers per step. Uses the long window, so that a pause does not
  // change the rate at once; learn() replaces it by the short one when the source has really
  // changed.
  [[nodiscard]] double supply(const Signals& signals, double step) const noexcept {
    // Assume one batch per step until more is known.
    return long_.rate(batches_since(signals) + 1, unblocked(signals) - unblocked_s_ + step) * step;
  }

  // Above 1 when more batches are ready than the set point, below 1 when fewer. A source that
  // delivers a batch per step or more needs no reserve, and one that is blocked by a full queue
  // loses more than a reserve is worth. In both cases the set point falls, down to half a batch.
  [[nodiscard]] double correction(double level, double capacity, double even) const noexcept {
    const double to_4th = even * even * even * even;
    const double needed = (1 - std::min(1.0, to_4th * to_4th)) * std::max(0.0, 1 - kLoss * blocked_share_);
    const double set = std::max(0.5, (kSetPoint * capacity - 1) * needed);
    const double off = level - set;
    const double x = std::clamp(off / (off < 0 ? set : std::max(1.0, capacity - set)), -1.0, 1.0);
    return std::exp(x * (kLinear + kCubic * x * x));
  }

  [[nodiscard]] double earned(const Signals& signals) const noexcept {
    if (signals.depth == signals.capacity) return 1;
    const double step = step_s(signals);
    if (!(step > 0)) return 1;
    const double even = supply(signals, step);
    const double silent = signals.produced == produced_ ? (unblocked(signals) - last_batch_s_) / step : 0;
    // The level includes fractions for the batch in production and for the one being used up: with
    // whole numbers only, a steady source would look unsteady.
    const double level = signals.depth + std::min(1.0, silent * even) - credit_;
    double earned = even * correction(level, signals.capacity, even);
    // If nothing has arrived for longer than a batch takes, it may take as long again: spread the
    // remaining batches over that time.
    const double overdue = silent - 1 / even;
    if (overdue > 0) earned = std::min(earned, kSpread * (signals.depth + 0.5) / overdue);
    return std::min(1.0, std::max(earned, even * kSlowest));
  }

  // Updates the estimates. Rates are per unblocked time, because a full queue says nothing about
  // the source.
  void learn(const Signals& signals) noexcept {
    if (signals.step > 0) {
      const double batches = batches_since(signals);
      const double seconds = unblocked(signals) - unblocked_s_;
      long_.add(batches, seconds);
      short_.add(batches, seconds);
      const double step = step_s(signals);
      const double change = short_.rate(1, step) / long_.rate(1, step);
      if (change > kChange || change < 1 / kChange) long_.take_over(short_);
      const double passed = signals.now_s - now_s_;
      if (passed > 0) blocked_share_ += ((passed - seconds) / passed - blocked_share_) / kBlockedWindow;
      const double kept = 1 - 1 / kStepWindow;
      step_seconds_ = step_seconds_ * kept + own_time(signals);
      steps_ = steps_ * kept + 1;
    }
    if (signals.produced != produced_) last_batch_s_ = unblocked(signals);
    produced_ = signals.produced;
    now_s_ = signals.now_s;
    unblocked_s_ = unblocked(signals);
  }

  RateEstimate long_{kLongWindow};
  RateEstimate short_{kShortWindow};
  double step_seconds_ = 0;
  double steps_ = 0;
  double blocked_share_ = 0;  // share of time, averaged over kBlockedWindow
  double credit_ = 0;
  double now_s_ = 0;
  double unblocked_s_ = 0;
  double last_batch_s_ = 0;
  std::uint64_t produced_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_adaptive_policy(const PolicyOptions& /*options*/) { return std::make_unique<Adaptive>(); }

}  // namespace forebay::policies
