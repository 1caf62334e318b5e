#include <string>
#include <utility>

#include "errors.hpp"
#include "parts.hpp"

namespace forebay::c {
namespace {

static_assert(static_cast<int>(Decision::fresh) == FOREBAY_FRESH);
static_assert(static_cast<int>(Decision::reuse) == FOREBAY_REUSE);
static_assert(static_cast<int>(Decision::wait) == FOREBAY_WAIT);

// The signals as a C struct; struct_size tells the program which members there are.
forebay_signals told(const Signals& signals) noexcept {
  return {.struct_size = sizeof(forebay_signals),
          .step = signals.step,
          .depth = signals.depth,
          .capacity = signals.capacity,
          .uses = signals.uses,
          .produced = signals.produced,
          .now_s = signals.now_s,
          .blocked_s = signals.blocked_s,
          .waited_s = signals.waited_s};
}

// decide() is called on the thread that calls next(), whenever the server asks for a decision.
class GivenPolicy final : public Policy {
 public:
  GivenPolicy(const forebay_policy& calls, std::shared_ptr<void> owner) : calls_(calls), owner_(std::move(owner)) {}

  [[nodiscard]] Decision decide(const Signals& signals) override {
    const forebay_signals what = told(signals);
    const std::int32_t decision = calls_.decide(calls_.context, &what);
    if (decision >= FOREBAY_FRESH && decision <= FOREBAY_WAIT) return static_cast<Decision>(decision);
    throw Error("policy.name: decide() of the program's policy returned " + std::to_string(decision) +
                "; it returns a forebay_decision, from 0 to 2");
  }
  void served(Decision decision, const Signals& signals) override {
    if (calls_.served == nullptr) return;
    const forebay_signals what = told(signals);
    calls_.served(calls_.context, static_cast<std::int32_t>(decision), &what);
  }

 private:
  forebay_policy calls_;
  std::shared_ptr<void> owner_;
};

}  // namespace

void check(const forebay_policy& policy) {
  if (policy.name == nullptr || *policy.name == '\0') refuse("forebay_policy::name is null or empty");
  if (policy.decide == nullptr) refuse("forebay_policy::decide is null");
}

void add(PolicyRegistry& policies, const forebay_policy& policy, std::shared_ptr<void> owner) {
  policies.add(policy.name, [policy, owner = std::move(owner)](const PolicyOptions&) {
    return std::make_unique<GivenPolicy>(policy, owner);
  });
}

}  // namespace forebay::c
