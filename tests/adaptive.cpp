// The promises of the default policy, in the simulator: evenness compared with the best schedule,
// no stall, no batch lost, no cost at R < 1, and quick adaptation when the source changes.
#include <forebay/policy.hpp>

#include "simulate/rank_model.hpp"
#include "simulate/simulation.hpp"
#include "test.hpp"

namespace forebay::test_adaptive {

using namespace forebay::simulate;

namespace {

constexpr std::uint64_t kSteps = 40'000;
constexpr std::uint64_t kSeeds = testing::kSanitized ? 1 : 5;

Scenario scenario_of(SourceKind kind, double ratio, std::uint64_t seed) {
  auto source = std::make_shared<SourceSpec>();
  source->kind = kind;
  source->mean_s = ratio;
  Scenario scenario;
  scenario.sources = {std::move(source)};
  scenario.steps = kSteps;
  scenario.seed = seed;
  scenario.queue.capacity = 16;
  scenario.queue.pool = 1;
  scenario.policy.name = "adaptive";
  scenario.policy.max_uses = 0;  // only the policy's own rule
  return scenario;
}

Outcome outcome_of(Scenario scenario, const std::string& policy = "adaptive") {
  scenario.policy.name = policy;
  return simulate::simulate(scenario, PolicyRegistry::builtin());
}

double per_step(std::uint64_t count) { return static_cast<double>(count) / kSteps; }

TEST_CASE("adaptive is close to the best schedule, never stalls and loses nothing") {
  struct Bound {
    SourceKind kind;
    double ratio_to_optimum;
  };
  for (const auto& [kind, bound] : {Bound{SourceKind::exponential, 1.10}, Bound{SourceKind::lognormal, 1.20}}) {
    for (const double ratio : {1.5, 3.0, 6.0}) {
      for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        CAPTURES(to_string(kind), ratio, seed);
        const Scenario scenario = scenario_of(kind, ratio, seed);
        const std::vector<std::uint64_t> arrived = arrivals(scenario);
        const Outcome outcome = outcome_of(scenario);
        CHECK(outcome.evenness * kSteps <= bound * best_schedule(arrived, 16).squares);
        CHECK(outcome.stall_s == 0);
        CHECK(outcome.fresh_fraction >= 0.99 * std::min(1.0, per_step(arrived.back())));
      }
    }
  }
}

TEST_CASE("adaptive costs nothing at R < 1") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    CHECK(per_step(outcome_of(scenario_of(SourceKind::constant, 0.8, seed)).reused) < 0.001);
    const Scenario exponential = scenario_of(SourceKind::exponential, 0.8, seed);
    const std::uint64_t forced = outcome_of(exponential, "greedy").reused;
    CHECK(per_step(outcome_of(exponential).reused - forced) <= 0.005);
  }
}

TEST_CASE("adaptive needs no tuning from R = 0.2 to 50 and from capacity 2 to 64") {
  for (const SourceKind kind : {SourceKind::constant, SourceKind::exponential, SourceKind::lognormal}) {
    for (const double ratio : {0.2, 0.5, 0.95, 1.0, 1.1, 1.5, 3.0, 6.0, 20.0, 50.0}) {
      for (const std::int64_t capacity : {2, 3, 4, 8, 16, 32, 64}) {
        CAPTURES(to_string(kind), ratio, capacity);
        Scenario scenario = scenario_of(kind, ratio, 1);
        scenario.queue.capacity = capacity;
        // Long enough that the initial filling of the queue does not matter.
        scenario.steps = std::max(kSteps, static_cast<std::uint64_t>(50 * ratio * static_cast<double>(capacity)));
        const Outcome outcome = outcome_of(scenario);
        const Outcome greedy = outcome_of(scenario, "greedy");
        CHECK(outcome.stall_s == 0);
        // Greedy takes every batch immediately. Batches left in the queue at the end are not lost.
        CHECK(static_cast<double>(outcome.fresh + outcome.left) >= 0.96 * static_cast<double>(greedy.fresh));
        CHECK(outcome.evenness <= 1.03 * greedy.evenness);
      }
    }
  }
}

TEST_CASE("outages: adaptive loses nothing as long as production in between is slower than the trainer") {
  for (const double batches_per_step : {0.3, 0.55, 0.7, 0.9}) {
    for (const std::int64_t capacity : {2, 8, 16, 64}) {
      CAPTURES(batches_per_step, capacity);
      SourceSpec source;
      source.kind = SourceKind::outages;
      source.on_s = 100;
      source.off_s = 400;
      source.mean_s = (source.on_s + source.off_s) / source.on_s / batches_per_step;
      Scenario scenario = scenario_of(source.kind, source.mean_s, 1);
      scenario.sources = {std::make_shared<const SourceSpec>(source)};
      scenario.queue.capacity = capacity;
      const Outcome outcome = outcome_of(scenario);
      const Outcome greedy = outcome_of(scenario, "greedy");
      CHECK(static_cast<double>(outcome.fresh + outcome.left) >=
            0.99 * static_cast<double>(greedy.fresh + greedy.left));
      CHECK(outcome.evenness <= 1.03 * greedy.evenness);
    }
  }
}

TEST_CASE("outages: a pool of 8 cuts the longest run of one batch by 4 against greedy on the current one") {
  for (const double ratio : {1.5, 3.0, 6.0}) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      CAPTURES(ratio, seed);
      Scenario scenario = scenario_of(SourceKind::outages, ratio, seed);
      auto source = std::make_shared<SourceSpec>(*scenario.sources.front());
      source->on_s = 200;
      source->off_s = 100;
      scenario.sources = {std::move(source)};
      Scenario pooled = scenario;
      pooled.queue.pool = 8;
      pooled.policy.pick = Pick::least_used;
      scenario.policy.pick = Pick::current;
      const Outcome single = outcome_of(scenario, "greedy");
      const Outcome greedy = outcome_of(pooled, "greedy");
      const Outcome adaptive = outcome_of(pooled);
      CHECK(greedy.fresh == single.fresh);
      CHECK(4 * greedy.longest_run <= single.longest_run);
      CHECK(4 * greedy.uses_max <= single.uses_max);
      CHECK(adaptive.fresh_fraction >= 0.98 * single.fresh_fraction);
      CHECK(4 * adaptive.longest_run <= single.longest_run);
      CHECK(4 * adaptive.uses_max <= single.uses_max);
    }
  }
}

// The uses of each batch, in order, for a source whose batches take `work` seconds.
std::vector<std::uint64_t> uses_over(const std::vector<double>& work, std::uint64_t steps, double& stall_s) {
  auto source = std::make_shared<SourceSpec>();
  source->kind = SourceKind::trace;
  source->work = work;
  UseTally tally;
  RankModel rank({.capacity = 16, .pool = 1, .max_leases = 2}, {}, Source(source, 1), tally);
  PolicyOptions options;
  options.name = "adaptive";
  options.max_uses = 0;
  const auto policy = with_rules(PolicyRegistry::builtin().make(options), options);
  std::vector<std::uint64_t> uses;
  double now = rank.first_batch_s();
  stall_s = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const RankModel::Served served = rank.step(*policy, now);
    if (served.decision == Decision::fresh) uses.push_back(0);
    ++uses.back();
    stall_s += served.wait_s;
    now += served.wait_s + 1;
  }
  return uses;
}

TEST_CASE("adaptive settles within 3 x capacity batches of a step change of R, without a stall") {
  constexpr std::size_t kFast = 4000;
  constexpr std::size_t kSlow = 1000;
  constexpr std::size_t kSettled = 3 * 16;
  constexpr std::size_t kQueued = 16;  // produced before a change and served after it
  std::vector<double> work(kFast, 0.5);
  work.resize(kFast + kSlow, 5.0);
  work.resize(kFast + kSlow + kFast, 0.5);
  double stall_s = 0;
  const std::vector<std::uint64_t> uses = uses_over(work, kFast + 5 * kSlow + kFast - 500, stall_s);
  CHECK(stall_s == 0);
  REQUIRE(uses.size() > kFast + kSlow + 1000);
  const auto [fast_least, fast_most] =
      std::minmax_element(uses.begin() + kSettled, uses.begin() + static_cast<std::ptrdiff_t>(kFast - kQueued));
  CHECK(*fast_least == 1);
  CHECK(*fast_most == 1);
  const auto slow = uses.begin() + static_cast<std::ptrdiff_t>(kFast);
  const auto [least, most] = std::minmax_element(slow + kSettled, slow + kSlow - kQueued);
  CHECK(*least >= 4);
  CHECK(*most <= 6);
  CHECK(std::all_of(slow + kSlow + kSettled, uses.end() - 1, [](std::uint64_t use) { return use == 1; }));
}

TEST_CASE("adaptive follows the ratio of the rates, whatever the unit of time") {
  for (const double scale : {1e-3, 1.0, 20.0}) {
    Scenario scenario = scenario_of(SourceKind::exponential, 3 * scale, 1);
    scenario.step_s = {scale};
    CHECK(outcome_of(scenario).fresh_fraction == doctest::Approx(1. / 3).epsilon(0.03));
    CHECK(outcome_of(scenario).uses_p99 <= 6);
  }
}

}  // namespace
}  // namespace forebay::test_adaptive
