#include <algorithm>
#include <tuple>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/policy.hpp>

namespace forebay {

RuledPolicy::RuledPolicy(std::unique_ptr<Policy> policy, const PolicyOptions& options)
    : policy_(std::move(policy)),
      max_uses_(static_cast<std::uint64_t>(std::max<std::int64_t>(options.max_uses, 0))),
      on_max_uses_(options.on_max_uses),
      max_wait_s_(options.max_wait_ms / 1000) {}

Decision RuledPolicy::decide(const Signals& signals) {
  if (signals.uses == 0) return Decision::fresh;
  const Decision decision = policy_->decide(signals);
  if (decision != Decision::reuse) return decision;
  if (signals.depth == 0 && signals.waited_s < max_wait_s_) {
    waited_in_ = signals.step;
    return Decision::wait;
  }
  if (signals.depth > 0 && waited_in_ == signals.step) return Decision::fresh;
  if (!is_capped(signals) || on_max_uses_ == OnMaxUses::warn) return Decision::reuse;
  if (on_max_uses_ == OnMaxUses::wait) return Decision::fresh;
  throw Error("step " + std::to_string(signals.step) + " would reuse a batch that was served " +
              std::to_string(signals.uses) + " times, and policy.max_uses = " + std::to_string(max_uses_) +
              " with policy.on_max_uses = \"error\": the source is too slow for this cap; raise policy.max_uses, or "
              "set policy.on_max_uses to \"wait\" or \"warn\"");
}

void RuledPolicy::served(Decision decision, const Signals& signals) {
  if (decision == Decision::reuse && is_capped(signals)) ++capped_reuses_;
  policy_->served(decision, signals);
}

bool RuledPolicy::is_capped(const Signals& signals) const noexcept {
  return max_uses_ > 0 && signals.uses >= max_uses_;
}

std::unique_ptr<RuledPolicy> with_rules(std::unique_ptr<Policy> policy, const PolicyOptions& options) {
  return std::make_unique<RuledPolicy>(std::move(policy), options);
}

std::size_t pick_resident(Pick pick, std::span<const Resident> residents) noexcept {
  if (pick == Pick::current) return residents.size() - 1;
  const auto least = std::ranges::min_element(
      residents, {}, [](const Resident& resident) { return std::tuple(resident.uses, resident.turn); });
  return static_cast<std::size_t>(least - residents.begin());
}

}  // namespace forebay
