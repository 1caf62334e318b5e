#include "explorer.hpp"

#include <forebay/random.hpp>

namespace forebay::model {

Result Explorer::explore(const Scenario& scenario, const Limits& limits) {
  Result result;
  sites_->enter(scenario.name);
  const auto run = [&](Choices& choices, const std::string& how) {
    const std::string wrong = machine_->run(scenario.run, choices);
    ++result.executions;
    result.steps += machine_->steps();
    result.outcomes.insert(machine_->outcome());
    if (wrong.empty()) return true;
    result.failure = std::string(scenario.name) + ", " + how + ": " + wrong;
    if (limits.traces) result.failure += "\n" + machine_->trace(kTraced);
    return false;
  };

  // A single deviation is tried everywhere before any two are, most of which the limit may cut off.
  for (const unsigned most : {1U, limits.deviations}) {
    Systematic systematic(most);
    bool is_more = result.executions < limits.executions;
    while (is_more && result.executions < limits.executions) {
      if (!run(systematic, "execution " + std::to_string(result.executions))) return result;
      if (systematic.differs()) {
        result.failure = std::string(scenario.name) + ": the same choices led elsewhere";
        return result;
      }
      is_more = systematic.next();
    }
    if (!is_more && result.executions < limits.executions) result.deviations = most;
  }
  for (std::uint64_t walk = 0; walk < limits.walks; ++walk) {
    Walk choices(key64(limits.seed, walk));
    if (!run(choices, "walk " + std::to_string(walk) + " of seed " + std::to_string(limits.seed))) return result;
  }
  sites_->resolve();
  return result;
}

}  // namespace forebay::model
