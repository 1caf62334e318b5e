#include <forebay/policy.hpp>

namespace forebay::policies {
namespace {

// Serves fresh whenever a batch is ready. Never waits and keeps no reserve, so reuses come in
// bursts.
class Greedy final : public Policy {
 public:
  Decision decide(const Signals& signals) override { return signals.depth > 0 ? Decision::fresh : Decision::reuse; }
  void served(Decision /*decision*/, const Signals& /*signals*/) override {}
};

}  // namespace

std::unique_ptr<Policy> make_greedy_policy(const PolicyOptions& /*options*/) { return std::make_unique<Greedy>(); }

}  // namespace forebay::policies
