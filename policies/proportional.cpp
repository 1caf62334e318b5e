#include <algorithm>

#include <forebay/policy.hpp>

#include "share.hpp"

namespace forebay::policies {
namespace {

// Each step earns min(1, depth / D) credit, where D = beta * capacity in whole batches; a fresh
// batch costs 1. Credit is counted in units of 1 / D, so sums are exact and nothing is lost to
// rounding.
//
// Invariant: as long as its decisions are carried out, 0 <= credit < 1 between steps. A step earns
// at most 1, and a step that earns anything has depth >= 1, so credit that reaches 1 is spent in
// the same step. Hence a ready batch waits for at most D - 1 reuses. Only decisions by other rules
// move the credit further. A fresh batch that another rule serves early costs what credit there is.
// If another rule reuses instead of serving fresh, the credit is kept for later, up to one for each
// batch that the queue can hold.
class Proportional final : public Policy {
 public:
  explicit Proportional(double beta) : beta_(beta) {}

  Decision decide(const Signals& signals) override {
    return signals.depth > 0 && earned(signals) >= price(signals) ? Decision::fresh : Decision::reuse;
  }

  void served(Decision decision, const Signals& signals) override {
    const std::uint64_t credit = earned(signals);
    const std::uint64_t one = price(signals);
    credit_ = decision == Decision::fresh ? credit - std::min(credit, one) : std::min(credit, one * signals.capacity);
  }

 private:
  [[nodiscard]] std::uint64_t price(const Signals& signals) const noexcept {
    return batches_of(beta_, signals.capacity);
  }
  [[nodiscard]] std::uint64_t earned(const Signals& signals) const noexcept {
    return credit_ + std::min<std::uint64_t>(signals.depth, price(signals));
  }

  double beta_;
  std::uint64_t credit_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_proportional_policy(const PolicyOptions& options) {
  return std::make_unique<Proportional>(options.beta);
}

}  // namespace forebay::policies
