// The rules that hold whatever a policy says, in the order in which they are applied: a first batch
// is always fresh; a reuse on an empty queue first waits for policy.max_wait_ms; a reuse beyond
// policy.max_uses becomes a wait for a fresh batch, a warning or an error. The server asks a
// RuledPolicy and never the policy itself; the simulator does so too, and therefore shows what a
// run would do. Called on the thread of next(), once or, when it answers "wait", several times per
// step.

#include <algorithm>
#include <tuple>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/policy.hpp>

namespace forebay {

RuledPolicy::RuledPolicy(std::unique_ptr<Policy> policy, const PolicyOptions& options)
    : policy_(std::move(policy)),
      name_(options.name),
      limit_(options.max_uses),
      is_strict_(options.max_uses != kAutomatic),
      on_max_uses_(options.on_max_uses),
      max_wait_s_(options.max_wait_ms / 1000) {}

// When a wait has brought a batch it is served at once: the policy asked for a reuse only because
// there was none.
Decision RuledPolicy::decide(const Signals& signals) {
  is_at_cap_ = false;
  if (signals.uses == 0) return Decision::fresh;
  const Decision decision = policy_->decide(signals);
  // A function that ends without a return gives any value, and it would be taken for a wish to wait,
  // in each step anew.
  if (decision > Decision::wait) {
    throw Error("policy.name = \"" + name_ + "\": decide() returned " +
                std::to_string(static_cast<unsigned>(decision)) +
                ", which is no Decision; does it return one on every path?");
  }
  if (decision != Decision::reuse) return decision;
  if (signals.depth == 0 && signals.waited_s < max_wait_s_) {
    waited_in_ = signals.step;
    return Decision::wait;
  }
  if (signals.depth > 0 && waited_in_ == signals.step) return Decision::fresh;
  is_at_cap_ = limit_.now() > 0 && signals.uses >= limit_.now();
  if (!is_capped() || on_max_uses_ == OnMaxUses::warn) return Decision::reuse;
  if (on_max_uses_ == OnMaxUses::wait) return Decision::fresh;
  throw Error("step " + std::to_string(signals.step) + " would reuse a batch that was served " +
              std::to_string(signals.uses) + " times, and policy.max_uses = " + std::to_string(limit_.now()) +
              " with policy.on_max_uses = \"error\": the source is too slow for this cap; raise policy.max_uses, or "
              "set policy.on_max_uses to \"wait\" or \"warn\"");
}

void RuledPolicy::served(Decision decision, const Signals& signals) {
  if (decision == Decision::reuse && is_capped()) ++capped_reuses_;
  limit_.served(signals);
  policy_->served(decision, signals);
}

std::unique_ptr<RuledPolicy> with_rules(std::unique_ptr<Policy> policy, const PolicyOptions& options) {
  return std::make_unique<RuledPolicy>(std::move(policy), options);
}

// The least used, and of those the one that was served first: uses stay within one of each other.
std::size_t pick_resident(Pick pick, std::span<const Resident> residents) noexcept {
  if (pick == Pick::current) return residents.size() - 1;
  const auto least = std::ranges::min_element(
      residents, {}, [](const Resident& resident) { return std::tuple(resident.uses, resident.turn); });
  return static_cast<std::size_t>(least - residents.begin());
}

}  // namespace forebay
