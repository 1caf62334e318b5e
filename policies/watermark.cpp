#include <algorithm>

#include <forebay/policy.hpp>

#include "share.hpp"

namespace forebay::policies {
namespace {

// Hysteresis between two depths. With low and high from batches_of(), 1 <= low <= high <= capacity:
// - serving changes to refilling when depth < low;
// - refilling, which reuses, changes to serving when depth >= high;
// - depth 0 is always refilling, so that no step waits.
//
// A source that has ended, or that delivers no batch in kPatience steps, may never fill the queue
// up to high. The queue is then drained to the last batch, so that everything that was read gets
// used.
class Watermark final : public Policy {
 public:
  Watermark(double low, double high) : low_(low), high_(high) {}

  Decision decide(const Signals& signals) override {
    return next_mode(signals) == Mode::refilling ? Decision::reuse : Decision::fresh;
  }

  void served(Decision decision, const Signals& signals) override {
    mode_ = next_mode(signals);
    unchanged_ = decision == Decision::reuse && signals.depth == depth_ ? unchanged_ + 1 : 0;
    depth_ = signals.depth;
  }

 private:
  enum class Mode : std::uint8_t { serving, refilling, draining };
  // Consecutive steps without a new batch. Chosen.
  static constexpr std::uint32_t kPatience = 64;

  [[nodiscard]] Mode next_mode(const Signals& signals) const noexcept {
    const std::uint32_t high = std::min(batches_of(high_, signals.capacity), signals.capacity);
    const std::uint32_t low = std::min(batches_of(low_, signals.capacity), high);
    if (signals.depth == 0) return Mode::refilling;
    if (signals.depth >= high) return Mode::serving;
    if (mode_ == Mode::serving && signals.depth < low) return Mode::refilling;
    if (mode_ == Mode::refilling && signals.depth == depth_ && unchanged_ >= kPatience) return Mode::draining;
    return mode_;
  }

  double low_;
  double high_;
  Mode mode_ = Mode::serving;
  std::uint32_t depth_ = 0;      // at the last step
  std::uint32_t unchanged_ = 0;  // consecutive reuses that found the same depth as the step before
};

}  // namespace

std::unique_ptr<Policy> make_watermark_policy(const PolicyOptions& options) {
  return std::make_unique<Watermark>(options.low, options.high);
}

}  // namespace forebay::policies
