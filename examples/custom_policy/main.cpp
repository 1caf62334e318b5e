// A policy from outside Forebay: it keeps ready batches as a reserve, but serves every N-th step fresh if one is ready.
//
//   custom_policy feed.toml policy.interval=4 policy.low=0.5 [section.key=value ...]

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <forebay/feeder.hpp>

namespace {

// Reuses while fewer than `low` of the capacity are ready, but for at most interval - 1 steps while any are. The last
// batches of a run are no reserve: the feeder then reports the capacity as the depth.
class Reserve final : public forebay::Policy {
 public:
  explicit Reserve(const forebay::PolicyOptions& options)
      : interval_(static_cast<std::uint64_t>(options.interval)), low_(options.low) {}

  forebay::Decision decide(const forebay::Signals& signals) override {
    const double reserve = std::max(1.0, std::ceil(low_ * signals.capacity));
    const bool is_due = reused_ + 1 >= interval_;
    if (signals.depth >= reserve || (signals.depth > 0 && is_due)) return forebay::Decision::fresh;
    return forebay::Decision::reuse;
  }
  void served(forebay::Decision decision, const forebay::Signals& /*signals*/) override {
    reused_ = decision == forebay::Decision::fresh ? 0 : reused_ + 1;  // what happened, not what was asked for
  }

 private:
  std::uint64_t interval_;
  double low_;
  std::uint64_t reused_ = 0;  // steps since the last fresh one
};

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> settings(argv + std::min(argc, 2), argv + argc);
  settings.emplace_back("policy.name=\"reserve\"");
  forebay::Parts parts;
  parts.policies.add("reserve", [](const auto& options) { return std::make_unique<Reserve>(options); });
  forebay::Feeder feeder(forebay::load_options(argc > 1 ? argv[1] : "feed.toml", settings), std::move(parts));
  while (feeder.next()) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // a trainer's step
  const forebay::Summary summary = feeder.summary();
  std::printf("%llu steps fresh, %llu reused, no batch served more than %llu times, %.1f %% of the time stalled\n",
              static_cast<unsigned long long>(summary.fresh), static_cast<unsigned long long>(summary.reused),
              static_cast<unsigned long long>(summary.uses_max), 100 * (1 - summary.au));
  return summary.fresh > 0 ? 0 : 1;
} catch (const forebay::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
