#include <algorithm>

#include <forebay/policy.hpp>

namespace forebay::policies {
namespace {

// Counts steps since the last fresh batch instead of using step mod N, so that a batch that another
// rule served early is also used for N steps.
class Interval final : public Policy {
 public:
  explicit Interval(std::int64_t interval) : interval_(std::max<std::int64_t>(interval, 1)) {}

  Decision decide(const Signals& /*signals*/) override {
    return steps_ == 0 || steps_ >= interval_ ? Decision::fresh : Decision::reuse;
  }
  void served(Decision decision, const Signals& /*signals*/) override {
    steps_ = decision == Decision::fresh ? 1 : steps_ + 1;
  }

 private:
  std::int64_t interval_;
  std::int64_t steps_ = 0;  // served since the last fresh batch, itself included; 0 before the first
};

}  // namespace

std::unique_ptr<Policy> make_interval_policy(const PolicyOptions& options) {
  return std::make_unique<Interval>(options.interval);
}

}  // namespace forebay::policies
