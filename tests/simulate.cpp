// Compares the simulator with independent results: distributions, hand-made schedules, exhaustive
// search.
#include <forebay/policy.hpp>

#include "simulate/rank_model.hpp"
#include "simulate/simulation.hpp"
#include "test.hpp"

namespace forebay::test_simulate {

using namespace forebay::simulate;

namespace {

std::shared_ptr<const SourceSpec> source_of(SourceKind kind, double mean_s) {
  auto spec = std::make_shared<SourceSpec>();
  spec->kind = kind;
  spec->mean_s = mean_s;
  return spec;
}

std::shared_ptr<const SourceSpec> recorded(std::vector<double> work) {
  auto spec = std::make_shared<SourceSpec>();
  spec->kind = SourceKind::trace;
  spec->work = std::move(work);
  return spec;
}

Scenario scenario_of(std::shared_ptr<const SourceSpec> source, std::string policy, std::uint64_t steps) {
  Scenario scenario;
  scenario.sources = {std::move(source)};
  scenario.policy.name = std::move(policy);
  scenario.steps = steps;
  return scenario;
}

Outcome outcome_of(const Scenario& scenario) { return simulate::simulate(scenario, PolicyRegistry::builtin()); }

TEST_CASE("sources have the mean and the spread that were asked for") {
  constexpr int kBatches = 200'000;
  struct Expected {
    SourceKind kind;
    double cv;
  };
  for (const auto& [kind, cv] : {Expected{SourceKind::constant, 0}, Expected{SourceKind::exponential, 1},
                                 Expected{SourceKind::lognormal, std::sqrt(std::exp(0.25) - 1)},
                                 Expected{SourceKind::gamma, 0.5}, Expected{SourceKind::gamma, 2}}) {
    CAPTURE(to_string(kind));
    auto spec = std::make_shared<SourceSpec>(*source_of(kind, 3));
    spec->sigma = 0.5;
    spec->cv = cv;
    Source source(spec, 7);
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kBatches; ++i) {
      const double work = source.finish(100) - 100;
      sum += work;
      squares += work * work;
    }
    const double mean = sum / kBatches;
    CHECK(mean == doctest::Approx(3).epsilon(0.02));
    CHECK(std::sqrt(std::max(0.0, squares / kBatches - mean * mean)) / mean == doctest::Approx(cv).epsilon(0.03));
  }
}

TEST_CASE("outages and contention keep the mean in the long run, and do not depend on the work") {
  for (const SourceKind kind : {SourceKind::outages, SourceKind::contention}) {
    CAPTURE(to_string(kind));
    auto spec = std::make_shared<SourceSpec>(*source_of(kind, 3));
    spec->on_s = 40;
    spec->off_s = 20;
    Source source(spec, 11);
    double now = 0;
    double longest = 0;
    constexpr int kBatches = 100'000;
    for (int i = 0; i < kBatches; ++i) {
      const double end = source.finish(now);
      longest = std::max(longest, end - now);
      now = end;
    }
    CHECK(now / kBatches == doctest::Approx(3).epsilon(0.03));
    CHECK(longest > (kind == SourceKind::outages ? 20 : 6));
    // A producer that starts its batches later meets the same outages.
    Source twin(spec, 11);
    Source lazy(spec, 11);
    for (int i = 0; i < 100; ++i) CHECK(twin.finish(10.0 * i) == lazy.finish(10.0 * i));
  }
}

TEST_CASE("impossible sources are refused by name") {
  auto spec = std::make_shared<SourceSpec>();
  spec->mean_s = 0;
  CHECK_THROWS_WITH_AS(Source(spec, 1), doctest::Contains("seconds per batch"), ConfigError);
  spec->kind = SourceKind::trace;
  CHECK_THROWS_WITH_AS(Source(spec, 1), doctest::Contains("no production"), ConfigError);
  spec->kind = SourceKind::gamma;
  spec->mean_s = 1;
  spec->cv = 0;
  CHECK_THROWS_WITH_AS(Source(spec, 1), doctest::Contains("cv"), ConfigError);
}

TEST_CASE("a rank's queue: a constant source, step by step") {
  UseTally tally;
  RankModel rank({.capacity = 2, .pool = 1, .max_leases = 2}, {}, Source(source_of(SourceKind::constant, 1.5), 1),
                 tally);
  CHECK(rank.first_batch_s() == 1.5);
  Signals signals = rank.observe(1.5);
  CHECK(signals.depth == 1);
  CHECK(signals.uses == 0);
  CHECK(signals.now_s == 0);
  rank.serve(Decision::fresh, 1.5, 1.5);
  signals = rank.observe(2.5);
  CHECK(signals.depth == 0);
  CHECK(signals.uses == 1);
  rank.serve(Decision::reuse, 2.5, 2.5);
  // The second batch is ready at 3, the third at 4.5: then the queue is full, and the producer waits.
  signals = rank.observe(6.5);
  CHECK(signals.depth == 2);
  CHECK(signals.produced == 3);
  CHECK(signals.blocked_s == doctest::Approx(2));
  CHECK(signals.now_s == doctest::Approx(5));
  rank.serve(Decision::fresh, 6.5, 6.5);
  CHECK(rank.observe(7.9).depth == 1);
  CHECK(rank.observe(8).depth == 2);
  CHECK(rank.observe(8.5).blocked_s == doctest::Approx(2.5));
  rank.finish();
  CHECK(tally.max() == 2);
  CHECK(tally.squares() == doctest::Approx(4 + 1));
}

TEST_CASE("a fresh batch that is not ready is waited for, and all ranks wait with it") {
  const Outcome alone = outcome_of(scenario_of(source_of(SourceKind::constant, 3), "block", 1000));
  CHECK(alone.fresh == 1000);
  CHECK(alone.stall_s == doctest::Approx(2 * 999));
  CHECK(alone.wall_s == doctest::Approx(3 * 999 + 1));
  Scenario job = scenario_of(source_of(SourceKind::constant, 0.5), "block", 1000);
  job.ranks = 3;
  job.sources.push_back(source_of(SourceKind::constant, 3));
  const Outcome together = outcome_of(job);
  CHECK(together.fresh == 3000);
  CHECK(together.stall_s == doctest::Approx(2 * 999));
}

TEST_CASE("local: a slow rank reuses, and the others do not notice") {
  Scenario job = scenario_of(source_of(SourceKind::constant, 0.8), "adaptive", 2000);
  job.ranks = 4;
  job.sources.resize(3, job.sources.front());
  job.sources.push_back(source_of(SourceKind::constant, 20));
  const Outcome outcome = outcome_of(job);
  CHECK(outcome.stall_s == 0);
  REQUIRE(outcome.fresh_of.size() == 4);
  CHECK(outcome.fresh_of[0] == 2000);
  CHECK(outcome.fresh_of[2] == 2000);
  CHECK(static_cast<double>(outcome.fresh_of[3]) == doctest::Approx(100).epsilon(0.1));
  CHECK(std::reduce(outcome.fresh_of.begin(), outcome.fresh_of.end()) == outcome.fresh);
}

TEST_CASE("a simulation is the same every time, and different with another seed") {
  Scenario scenario = scenario_of(source_of(SourceKind::lognormal, 3), "adaptive", 5000);
  scenario.ranks = 3;
  const Outcome first = outcome_of(scenario);
  const Outcome again = outcome_of(scenario);
  CHECK(first.fresh == again.fresh);
  CHECK(first.evenness == again.evenness);
  scenario.seed = 2;
  CHECK(first.evenness != outcome_of(scenario).evenness);
}

TEST_CASE("lockstep: ranks decide alike, never wait, and reach the rate of the slowest") {
  for (const SourceKind kind : {SourceKind::constant, SourceKind::exponential}) {
    CAPTURE(to_string(kind));
    Scenario job = scenario_of(source_of(kind, 0.5), "adaptive", 10'000);
    job.mpi.mode = MpiMode::lockstep;
    job.ranks = 4;
    job.sources.push_back(source_of(kind, 3));  // ranks 1 and 3 are slow
    const Outcome outcome = outcome_of(job);
    CHECK(outcome.stall_s == 0);
    CHECK(outcome.fresh % 4 == 0);
    CHECK(outcome.fresh_fraction == doctest::Approx(1. / 3).epsilon(0.06));
  }
  Scenario shallow = scenario_of(source_of(SourceKind::constant, 3), "adaptive", 10);
  shallow.mpi.mode = MpiMode::lockstep;
  shallow.queue.capacity = shallow.mpi.lag;
  CHECK_THROWS_WITH_AS(outcome_of(shallow), doctest::Contains("queue.capacity > mpi.lag"), ConfigError);
}

// The cost found by trying all sequences of fresh and reuse steps that the conditions of
// best_schedule() allow.
double exhaustive(const std::vector<std::uint64_t>& arrived, std::uint64_t capacity) {
  const std::size_t steps = arrived.size();
  double best = std::numeric_limits<double>::infinity();
  for (std::uint32_t fresh = 1; fresh < (1U << steps); fresh += 2) {  // bit k: step k is fresh; step 0 always is
    std::uint64_t served = 0;
    std::uint64_t uses = 0;
    double squares = 0;
    bool allowed = true;
    for (std::size_t step = 0; step < steps && allowed; ++step) {
      if ((fresh >> step & 1U) != 0) {
        squares += static_cast<double>(uses * uses);
        uses = 0;
        ++served;
      }
      ++uses;
      allowed = served <= arrived[step] && (step + 1 == steps || arrived[step + 1] <= served + capacity);
    }
    if (allowed) best = std::min(best, squares + static_cast<double>(uses * uses));
  }
  return best;
}

TEST_CASE("the best schedule is what exhaustive search finds") {
  Random random(31);
  int solved = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t steps = 1 + random.below(13);
    const std::uint64_t capacity = 1 + random.below(4);
    const double busy = random.uniform(0.1, 1.2);
    std::vector<std::uint64_t> arrived{1 + random.below(std::min<std::uint64_t>(capacity, 2))};
    while (arrived.size() < steps) {
      const auto more = static_cast<std::uint64_t>(random.uniform() < busy) + (random.uniform() < 0.1 ? 2 : 0);
      arrived.push_back(arrived.back() + more);
    }
    CAPTURE(trial);
    const double expected = exhaustive(arrived, capacity);
    if (std::isinf(expected)) {
      CHECK_THROWS_AS((void)best_schedule(arrived, capacity), Error);
      continue;
    }
    ++solved;
    const BestSchedule schedule = best_schedule(arrived, capacity);
    CHECK(schedule.squares == expected);
    // The returned schedule has the returned cost.
    double squares = 0;
    for (std::size_t i = 0; i < schedule.fresh_steps.size(); ++i) {
      const std::uint64_t end = i + 1 < schedule.fresh_steps.size() ? schedule.fresh_steps[i + 1] : steps;
      CHECK(schedule.fresh_steps[i] < end);
      squares += std::pow(static_cast<double>(end - schedule.fresh_steps[i]), 2);
    }
    CHECK(squares == expected);
  }
  CHECK(solved > 200);
}

TEST_CASE("no policy with one resident batch beats the best schedule without a stall") {
  for (const SourceKind kind : {SourceKind::constant, SourceKind::exponential, SourceKind::lognormal}) {
    for (const double ratio : {0.8, 1.5, 6.0}) {
      for (const char* policy : {"adaptive", "proportional", "greedy", "watermark"}) {
        CAPTURES(to_string(kind), ratio, policy);
        Scenario scenario = scenario_of(source_of(kind, ratio), policy, 3000);
        scenario.queue.pool = 1;
        const double best = best_schedule(arrivals(scenario), 16).squares / 3000;
        CHECK(outcome_of(scenario).evenness >= best - 1e-9);
      }
    }
  }
}

TEST_CASE("arrivals: what a consumer that takes every batch at once sees") {
  Scenario scenario = scenario_of(recorded({1, 0, 0, 0, 0, 0, 10, 1, 1, 1}), "greedy", 8);
  scenario.queue.capacity = 3;
  // Three arrive at once and fill the queue; each batch taken makes room for one more, up to the
  // sixth.
  CHECK(arrivals(scenario) == std::vector<std::uint64_t>{3, 4, 5, 6, 6, 6, 6, 6});
}

TEST_CASE("a queue of capacity auto stays small on a steady store and bridges pauses as a large one does") {
  const auto pauses = std::make_shared<SourceSpec>(*source_of(SourceKind::outages, 1));
  const auto run = [](std::shared_ptr<const SourceSpec> source, const char* policy, std::int64_t capacity) {
    Scenario scenario = scenario_of(std::move(source), policy, 4000);
    scenario.queue.capacity = capacity;
    return outcome_of(scenario);
  };
  for (const char* policy : {"adaptive", "greedy", "proportional", "watermark", "block"}) {
    CAPTURE(policy);
    for (const double ratio : {0.8, 1.5, 3.0}) {
      CAPTURE(ratio);
      const Outcome steady = run(source_of(SourceKind::constant, ratio), policy, 0);
      CHECK(steady.capacity <= 4);
      CHECK(steady.fresh + steady.left >= run(source_of(SourceKind::constant, ratio), policy, 16).fresh - 16);
    }
    SourceSpec bursts = *pauses;  // R = 0.7; a pause lasts 4 steps, a sixth of the time
    bursts.mean_s = 0.7;
    bursts.on_s = 20;
    bursts.off_s = 4;
    const auto source = std::make_shared<const SourceSpec>(bursts);
    const Outcome fixed = run(source, policy, 16);
    const Outcome grown = run(source, policy, 0);
    CHECK(grown.capacity > 2);
    CHECK(grown.capacity <= 16);
    CHECK(grown.stall_s <= fixed.stall_s + 20);  // until it has grown
    CHECK(static_cast<double>(grown.fresh) >= 0.99 * static_cast<double>(fixed.fresh));
  }
}

}  // namespace
}  // namespace forebay::test_simulate
