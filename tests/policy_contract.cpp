// The contract of every policy, checked for all registered ones in the simulator. A new policy is
// covered once it is registered.
#include <forebay/policy.hpp>

#include "measure/recording.hpp"
#include "simulate/rank_model.hpp"
#include "simulate/simulation.hpp"
#include "test.hpp"

namespace forebay::test_policy_contract {

using namespace forebay::measure;
using namespace forebay::simulate;

namespace {

constexpr std::uint64_t kSteps = 10'000;
constexpr std::int64_t kInterval = 4;
constexpr std::array kCapacities{1, 2, 3, 16, 64};
constexpr std::array kRatios{0.2, 0.5, 0.95, 1.0, 1.5, 3.0, 10.0, 50.0};  // R: seconds of work per batch

// These may wait for a batch by their own rule; all other policies must not.
const std::set<std::string> kBlocking{"block", "interval", "replay"};

enum class Shape : std::uint8_t { constant, exponential, bursty, outages };
constexpr std::array kShapes{Shape::constant, Shape::exponential, Shape::bursty, Shape::outages};

std::string name_of(Shape shape) {
  switch (shape) {
    case Shape::constant: return "constant";
    case Shape::exponential: return "exponential";
    case Shape::bursty: return "bursty";
    case Shape::outages: return "outages";
  }
  return "?";
}

std::shared_ptr<SourceSpec> source_of(Shape shape, double ratio) {
  auto source = std::make_shared<SourceSpec>();
  source->mean_s = ratio;
  if (shape == Shape::exponential) source->kind = SourceKind::exponential;
  if (shape == Shape::bursty) {  // eight at once
    source->kind = SourceKind::trace;
    source->work.assign(8, 0.0);
    source->work.front() = 8 * ratio;
  }
  if (shape == Shape::outages) {  // as long as ten batches take
    source->kind = SourceKind::outages;
    source->on_s = 10 * ratio;
    source->off_s = 10 * ratio;
  }
  return source;
}

// A source that ends after a number of batches.
std::shared_ptr<SourceSpec> ending(const SourceSpec& spec, std::uint64_t seed, std::uint64_t batches) {
  auto source = std::make_shared<SourceSpec>();
  source->kind = SourceKind::trace;
  Source whole(std::make_shared<SourceSpec>(spec), seed);
  for (std::uint64_t batch = 0; batch < batches; ++batch) source->work.push_back(whole.finish(0));
  source->work.push_back(std::numeric_limits<double>::infinity());
  return source;
}

// Two objects of the same policy, each asked repeatedly: they must agree with each other and with
// themselves.
class Checked final : public Policy {
 public:
  struct Findings {
    std::uint64_t disagreements = 0;
    std::uint64_t waits = 0;  // waits for a batch although one was resident
  };

  Checked(std::unique_ptr<Policy> policy, std::unique_ptr<Policy> twin, Findings& findings)
      : policy_(std::move(policy)), twin_(std::move(twin)), findings_(findings) {}

  Decision decide(const Signals& signals) override {
    const Decision decision = policy_->decide(signals);
    if (policy_->decide(signals) != decision || twin_->decide(signals) != decision) ++findings_.disagreements;
    if (decision != Decision::reuse && signals.depth == 0) ++findings_.waits;
    return decision;
  }
  void served(Decision decision, const Signals& signals) override {
    policy_->served(decision, signals);
    twin_->served(decision, signals);
  }

 private:
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Policy> twin_;
  Findings& findings_;
};

Outcome run_checked(const Scenario& scenario, Checked::Findings& findings) {
  const PolicyRegistry builtin = PolicyRegistry::builtin();
  PolicyRegistry checked;
  checked.add(scenario.policy.name, [&](const PolicyOptions& options) {
    return std::make_unique<Checked>(builtin.make(options), builtin.make(options), findings);
  });
  return simulate::simulate(scenario, checked);
}

Outcome run(const Scenario& scenario) { return simulate::simulate(scenario, PolicyRegistry::builtin()); }

// A recording for replay: greedy's decisions with a source at half the trainer's speed.
const std::string& recording() {
  static const testing::TemporaryDirectory dir;
  static const std::string file = [] {
    const auto greedy = PolicyRegistry::builtin().make({.name = "greedy"});
    std::vector<std::uint64_t> runs;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const Signals signals{.step = step, .depth = static_cast<std::uint32_t>(1 - step % 2), .uses = 1};
      runs.push_back(1);
      REQUIRE(greedy->decide(signals) == (step % 2 == 0 ? Decision::fresh : Decision::reuse));
    }
    std::ofstream(dir / "decisions") << header_line({}) << decisions_line(0, runs);
    return (dir / "decisions").string();
  }();
  return file;
}

PolicyOptions options_for(const std::string& name) {
  PolicyOptions options;
  options.name = name;
  options.interval = kInterval;
  options.max_uses = 0;  // the policy alone
  if (name == "replay") options.recording = recording();
  return options;
}

Scenario with(Scenario scenario, const std::string& policy) {
  scenario.policy = options_for(policy);
  return scenario;
}

std::vector<std::string> reusing_policies() {
  std::vector<std::string> names;
  for (const std::string& name : PolicyRegistry::builtin().names()) {
    if (!kBlocking.contains(name)) names.push_back(name);
  }
  return names;
}

// A cell of the grid.
struct Cell {
  Shape shape;
  double ratio;
  Scenario scenario;  // everything but the policy
};

// Runs `check(cell)` over the whole grid.
template <typename Check>
void over_grid(Check check) {
  std::uint64_t seed = 2024;
  const std::uint64_t every = testing::kSanitized ? 37 : 1;
  for (const Shape shape : kShapes) {
    for (const double ratio : kRatios) {
      for (const int capacity : kCapacities) {
        if (++seed % every != 0) continue;
        CAPTURES(name_of(shape), ratio, capacity);
        Cell cell{.shape = shape, .ratio = ratio, .scenario = {}};
        cell.scenario.sources = {source_of(shape, ratio)};
        cell.scenario.queue.capacity = capacity;
        cell.scenario.steps = kSteps;
        cell.scenario.seed = seed;
        check(cell);
      }
    }
  }
}

// Batches served or still in the queue, per step: those still ready are not lost.
double delivered(const Outcome& outcome) { return static_cast<double>(outcome.fresh + outcome.left) / kSteps; }

TEST_CASE("every policy: equal objects agree, asking changes nothing, and what is consumed is what was produced") {
  for (const std::string& name : PolicyRegistry::builtin().names()) {
    CAPTURE(name);
    over_grid([&](const Cell& cell) {
      Checked::Findings findings;
      const Outcome outcome = run_checked(with(cell.scenario, name), findings);
      CHECK(findings.disagreements == 0);
      CHECK(outcome.fresh + outcome.reused == kSteps);
      CHECK(outcome.fresh + outcome.left == outcome.produced);
      if (!kBlocking.contains(name)) CHECK(findings.waits == 0);
      if (!kBlocking.contains(name)) CHECK(outcome.stall_s == 0);
      if (name == "block") CHECK(outcome.reused == 0);
    });
  }
}

TEST_CASE("reusing policies hardly reuse when the source is fast enough") {
  for (const std::string& name : reusing_policies()) {
    CAPTURE(name);
    over_grid([&](const Cell& cell) {
      const bool fast = cell.shape == Shape::constant
                            ? cell.ratio < 1
                            : cell.ratio <= 0.5 && cell.scenario.queue.capacity >= 16 && cell.shape != Shape::outages;
      if (!fast) return;
      Scenario scenario = with(cell.scenario, name);
      const std::uint64_t reused = run(scenario).reused;
      scenario.steps = kSteps / 2;
      CHECK(static_cast<double>(reused - run(scenario).reused) < 0.001 * kSteps);
    });
  }
}

TEST_CASE("what reusing policies deliver is close to what greedy does, which takes every batch at once") {
  for (const std::string name : {"adaptive", "proportional"}) {
    CAPTURE(name);
    over_grid([&](const Cell& cell) {
      // A batch that waits for its turn takes up much of a small queue, where the next burst needs
      // room. In outages, a reserve that is kept longer than they last costs batches, in exchange
      // for evenness.
      const double least = cell.shape == Shape::outages ? 0.93 : 0.98;
      if (cell.shape != Shape::constant && cell.scenario.queue.capacity < 16) return;
      CHECK(delivered(run(with(cell.scenario, name))) >= least * delivered(run(with(cell.scenario, "greedy"))));
    });
  }
}

TEST_CASE("every policy: max_uses is never exceeded under on_max_uses = wait, whatever the pool") {
  for (const std::string& name : PolicyRegistry::builtin().names()) {
    CAPTURE(name);
    for (const std::int64_t cap : {1, 2, 3, 10}) {
      CAPTURE(cap);
      over_grid([&](const Cell& cell) {
        Scenario scenario = with(cell.scenario, name);
        scenario.steps = 1000;
        scenario.queue.pool = 1 + cap % 3;
        scenario.policy.max_uses = cap;
        CHECK(run(scenario).uses_max <= static_cast<std::uint64_t>(cap));
      });
    }
  }
}

TEST_CASE("every policy: batches that stay ready are served, at any depth") {
  constexpr std::uint64_t kPatience = 256;  // within so many steps a ready batch must be taken
  for (const std::string& name : PolicyRegistry::builtin().names()) {
    CAPTURE(name);
    for (const int most : kCapacities) {
      const auto capacity = static_cast<std::uint32_t>(most);
      CAPTURE(capacity);
      for (std::uint32_t depth = 1; depth <= capacity; ++depth) {
        const PolicyOptions options = options_for(name);
        const auto policy = with_rules(PolicyRegistry::builtin().make(options), options);
        std::uint64_t in_a_row = 0;
        std::uint64_t longest = 0;
        std::uint64_t uses = 0;
        for (std::uint64_t step = 0; step < 4 * kPatience; ++step) {
          const Signals signals{step, depth, capacity, uses, step + depth, static_cast<double>(step), 0, 0};
          const Decision decision = policy->decide(signals);
          policy->served(decision, signals);
          in_a_row = decision == Decision::fresh ? 0 : in_a_row + 1;
          uses = in_a_row + 1;
          longest = std::max(longest, in_a_row);
        }
        CAPTURE(depth);
        CHECK(longest < kPatience);
      }
    }
  }
}

TEST_CASE("reusing policies serve the last batch of a source that ends, and then continue without waiting") {
  for (const std::string& name : reusing_policies()) {
    CAPTURE(name);
    over_grid([&](const Cell& cell) {
      for (const std::uint64_t batches : {1U, 2U, 3U, 17U}) {
        CAPTURE(batches);
        Scenario scenario = with(cell.scenario, name);
        scenario.sources = {ending(*source_of(cell.shape, cell.ratio), scenario.seed, batches)};
        scenario.steps = std::max(kSteps, static_cast<std::uint64_t>(1000 * cell.ratio));
        CHECK(run(scenario).fresh == batches);
      }
    });
  }
}

TEST_CASE("reusing policies: max_wait_ms prefers a short wait to a reuse, and waits no longer") {
  for (const std::string& name : reusing_policies()) {
    CAPTURE(name);
    for (const int capacity : kCapacities) {
      CAPTURE(capacity);
      Scenario scenario;
      scenario.policy = options_for(name);
      scenario.policy.max_wait_ms = 100;
      scenario.queue.capacity = capacity;
      scenario.steps = 1000;
      // A batch takes 1.05 steps, so waiting 50 ms for it is always enough.
      scenario.sources = {source_of(Shape::constant, 1.05)};
      const Outcome patient = run(scenario);
      if (name == "greedy") CHECK(patient.reused == 0);
      CHECK(patient.stall_s <= 0.1001 * 1000);
      // A longer wait is cut off, and the batch is reused.
      scenario.sources = {source_of(Shape::constant, 50)};
      const Outcome hopeless = run(scenario);
      CHECK(hopeless.reused > 900);
      CHECK(hopeless.stall_s <= 0.1001 * 1000);
    }
  }
}

// A random source, queue and set of rules.
Scenario random_scenario(Random& random) {
  auto source = std::make_shared<SourceSpec>();
  source->kind = static_cast<SourceKind>(random.below(6));  // all kinds except traces
  source->mean_s = std::exp(random.uniform(std::log(0.2), std::log(50)));
  source->sigma = random.uniform(0, 2);
  source->cv = random.uniform(0.1, 3);
  source->on_s = std::exp(random.uniform(0, 6));
  source->off_s = std::exp(random.uniform(0, 6));
  Scenario scenario;
  scenario.sources = {std::move(source)};
  scenario.seed = random.bits();
  scenario.queue.capacity = static_cast<std::int64_t>(1 + random.below(64));
  scenario.queue.pool = static_cast<std::int64_t>(1 + random.below(8));
  const std::vector<std::string> names = reusing_policies();
  scenario.policy = options_for(names[random.below(names.size())]);
  scenario.policy.pick = random.below(2) == 0 ? Pick::current : Pick::least_used;
  if (random.below(2) == 0) scenario.policy.max_uses = static_cast<std::int64_t>(1 + random.below(20));
  if (random.below(3) == 0) scenario.policy.max_wait_ms = random.uniform(1, 2000);
  return scenario;
}

TEST_CASE("any source, policy, queue and rules: no stall while a batch may be reused, no batch beyond its cap") {
  constexpr int kScenarios = testing::kSanitized ? 20 : 400;
  constexpr int kStepsEach = 1500;
  for (int seed = 0; seed < kScenarios; ++seed) {
    CAPTURE(seed);
    Random random(key64(std::uint64_t{4711}, seed));
    const Scenario scenario = random_scenario(random);
    const PolicyOptions& rules = scenario.policy;
    CAPTURE(rules.name);
    const auto policy = with_rules(PolicyRegistry::builtin().make(rules), rules);
    const auto cap = static_cast<std::uint64_t>(rules.max_uses);
    UseTally tally;
    RankModel rank(scenario.queue, rules, Source(scenario.sources.front(), scenario.seed), tally);
    double now = rank.first_batch_s();
    std::uint64_t unjustified = 0;
    for (int step = 0; step < kStepsEach; ++step) {
      const Signals signals = rank.observe(now);
      const bool may_reuse = signals.uses > 0 && (cap == 0 || signals.uses < cap);
      const RankModel::Served served = rank.step(*policy, now);
      const double allowed = may_reuse && signals.depth == 0 ? rules.max_wait_ms / 1000 : 0;
      if ((may_reuse || signals.depth > 0) && served.wait_s > allowed + 1e-9) ++unjustified;
      now += served.wait_s + 1;
    }
    CHECK(unjustified == 0);
    CHECK(rank.fresh() + rank.depth() == rank.produced());
    rank.finish();
    if (cap > 0) CHECK(tally.max() <= cap);
  }
}

}  // namespace
}  // namespace forebay::test_policy_contract
