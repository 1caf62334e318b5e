// The default policy. Keeps an estimate of the source's rate and of the trainer's steps, and from
// them a credit: each step earns what the source delivers in its time, a fresh batch costs 1. A
// correction by the queue's depth keeps a reserve of about two thirds; it shrinks as far as the
// source keeps up by itself, and as far as a full queue blocks the producer. Asked once per step on
// the trainer's thread, with the signals of that step, and told what was served; no clock, no
// randomness, so the simulator and all ranks in lockstep decide the same from the same signals.
//
// docs/decisions/0006-adaptive.md has the reasons, and where the constants come from: a random
// search at R = 1.5, 3 and 6, checked from 0.2 to 50.

#include <algorithm>
#include <cmath>

#include <forebay/policy.hpp>

namespace forebay::policies {
namespace {

// Batches per second of unblocked time, over a window of batches. Older ones count exponentially less: by a factor e
// per window, however long they took, so that a slow source is not forgotten sooner.
class RateEstimate {
 public:
  explicit RateEstimate(double window) : window_(window) {}

  void add(double batches, double seconds) noexcept {
    const double kept = std::exp(-batches / window_);
    batches_ = batches_ * kept + batches;
    seconds_ = seconds_ * kept + seconds;
  }
  // As if `batches` and `seconds` had been added.
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

// Rate matching. Each step earns an estimated lambda / mu credit, times a correction for the depth; a fresh batch is
// served when the credit reaches 1, and costs 1. With an exact estimate and a correction of 1, fresh steps would be as
// even as whole steps can be.
class Adaptive final : public Policy {
 public:
  Decision decide(const Signals& signals) override {
    // Room for the producer comes first, and not only when the queue is full: it would be full again before the next
    // step, and the producer would lose the rest of every step.
    if (signals.depth + 1 >= std::max(2U, signals.capacity)) return Decision::fresh;
    return signals.depth > 0 && credit_ + earned(signals) >= 1 ? Decision::fresh : Decision::reuse;
  }

  void served(Decision decision, const Signals& signals) override {
    // Steps decided by other rules, and a full or empty queue, must not leave a debt or a hoard that takes many steps
    // to work off.
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
  static constexpr double kLoss = 8;             // how fast blocking lowers the set point
  static constexpr double kLinear = 0.5;         // of the correction
  static constexpr double kCubic = 0.6;
  static constexpr double kSpread = 0.6;       // of what is left when nothing comes
  static constexpr double kSlowest = 1. / 16;  // of the even rate

  // The producer's own time: without the time in which a full queue blocked it.
  [[nodiscard]] static double unblocked(const Signals& signals) noexcept { return signals.now_s - signals.blocked_s; }
  [[nodiscard]] double batches_since(const Signals& signals) const noexcept {
    return static_cast<double>(signals.produced - produced_);
  }

  // Since the last step, without waits for a batch: a trainer that waits is not slow.
  [[nodiscard]] double own_time(const Signals& signals) const noexcept {
    return signals.now_s - now_s_ - signals.waited_s;
  }

  [[nodiscard]] double step_s(const Signals& signals) const noexcept {
    return (step_seconds_ + own_time(signals)) / (steps_ + 1);
  }

  // Batches per step that the source delivers.
  // A window that forgets slowly, so that a pause does not change the rate at once; learn()
  // replaces it by the short one when the source has really changed.
  [[nodiscard]] double supply(const Signals& signals, double step) const noexcept {
    // Assume one batch per step until more is known.
    return long_.rate(batches_since(signals) + 1, unblocked(signals) - unblocked_s_ + step) * step;
  }

  // Above 1 when more is ready than the set point, below 1 when less. A source that delivers a batch per step or more
  // needs no reserve, and one that finds the queue full loses more than a reserve is worth: then the set point falls,
  // down to half a batch.
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
    // The batch being made and the one being used up count in fractions: with whole numbers alone a steady source would
    // look unsteady.
    const double level = signals.depth + std::min(1.0, silent * even) - credit_;
    double earned = even * correction(level, signals.capacity, even);
    // If nothing has come for longer than a batch takes, it may take as long again: spread what is left over that time.
    const double overdue = silent - 1 / even;
    if (overdue > 0) earned = std::min(earned, kSpread * (signals.depth + 0.5) / overdue);
    return std::min(1.0, std::max(earned, even * kSlowest));
  }

  // Rates are per unblocked time: a full queue says nothing about the source.
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
  double blocked_share_ = 0;  // of time
  double credit_ = 0;
  double now_s_ = 0;
  double unblocked_s_ = 0;
  double last_batch_s_ = 0;
  std::uint64_t produced_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_adaptive_policy(const PolicyOptions& /*options*/) { return std::make_unique<Adaptive>(); }

}  // namespace forebay::policies
