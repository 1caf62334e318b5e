#include <forebay/policy.hpp>

namespace forebay::policies {
namespace {

// Every step is fresh: what a trainer without reuse does, and the baseline of every comparison.
class Block final : public Policy {
 public:
  Decision decide(const Signals& /*signals*/) override { return Decision::fresh; }
  void served(Decision /*decision*/, const Signals& /*signals*/) override {}
};

}  // namespace

std::unique_ptr<Policy> make_block_policy(const PolicyOptions& /*options*/) { return std::make_unique<Block>(); }

}  // namespace forebay::policies
