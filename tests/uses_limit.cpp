// policy.max_uses = "auto": the limit that it finds, and that it applies to a job, not to a rank.
#include <forebay/policy.hpp>

#include "ring/queue_slots.hpp"
#include "simulate/simulation.hpp"
#include "test.hpp"

namespace forebay::test_uses_limit {

using namespace forebay::ring;
using namespace forebay::simulate;

namespace {

// Drives UsesLimit with steps of a second each and a producer that no full queue blocks.
class Steps {
 public:
  explicit Steps(std::int64_t max_uses = kAutomatic) : limit(max_uses) { limit.served({.produced = produced_}); }

  // Makes steps until the next batch arrives, `ratio` steps after the last.
  void batch(double ratio) {
    due_ += ratio;
    while (now_ < due_) step(1);
    ++produced_;
  }
  void step(double seconds, double waited_s = 0) {
    now_ += seconds + waited_s;
    limit.served({.step = step_++, .produced = produced_, .now_s = now_, .blocked_s = blocked_, .waited_s = waited_s});
  }
  // A pause during which the queue is full.
  void pause(double seconds) {
    blocked_ += seconds - 1;
    due_ += seconds - 1;
    step(seconds);
  }
  void wait(double seconds) {
    due_ += seconds;
    step(1, seconds);
  }
  void batches(int count, double ratio) {
    for (int i = 0; i < count; ++i) batch(ratio);
    step(1);
  }

  UsesLimit limit;

 private:
  std::uint64_t step_ = 1;
  std::uint64_t produced_ = 1;
  double now_ = 0;
  double blocked_ = 0;
  double due_ = 0;
};

TEST_CASE("a number is the limit, whatever happens") {
  for (const std::int64_t number : {0, 1, 7}) {
    Steps steps(number);
    CHECK(steps.limit.now() == static_cast<std::uint64_t>(number));
    steps.batches(100, 3);
    CHECK(steps.limit.now() == static_cast<std::uint64_t>(number));
  }
}

TEST_CASE("auto: four times as many uses as a batch gets while storage delivers, and four where storage keeps up") {
  for (const double ratio : {0.25, 1.0, 1.5, 3.0, 12.0}) {
    CAPTURE(ratio);
    Steps steps;
    steps.batches(400, ratio);
    const auto expected = static_cast<std::uint64_t>(4 * std::max(1.0, ratio));
    CHECK(steps.limit.now() >= expected);
    CHECK(steps.limit.now() <= expected + 1);
  }
}

TEST_CASE("auto: no limit before eight batches and eight steps") {
  Steps steps;
  steps.batches(7, 3);
  CHECK(steps.limit.now() == 0);
  steps.batches(3, 3);
  CHECK(steps.limit.now() > 0);
}

TEST_CASE("auto: an outage hardly raises the limit, however long it is") {
  Steps steps;
  steps.batches(400, 3);
  for (const double outage : {100, 1'000'000}) {
    CAPTURE(outage);
    steps.batch(outage);
    steps.step(1);
    CHECK(steps.limit.now() <= 15);
    steps.batches(64, 3);
  }
}

TEST_CASE("auto: the limit follows a source that has changed") {
  Steps steps;
  steps.batches(400, 1.5);
  steps.batches(128, 12);
  CHECK(steps.limit.now() >= 40);
  steps.batches(400, 1.5);
  CHECK(steps.limit.now() <= 8);
}

TEST_CASE("auto: neither waits nor a few long steps count") {
  Steps steps;
  steps.step(300);  // such as compiling a model
  for (int i = 0; i < 400; ++i) {
    steps.batches(1, 3);
    if (i % 100 == 50) steps.pause(60);  // such as an evaluation, while the full queue blocks the producer
    steps.wait(50);
  }
  // 50 of 54 seconds are waits, so storage takes 54 steps per batch.
  CHECK(steps.limit.now() >= 4 * 50);
  CHECK(steps.limit.now() <= 4 * 60);
}

TEST_CASE("auto: batches that come before the clock runs, or in no time, are no sign of a fast source") {
  UsesLimit limit(kAutomatic);
  std::uint64_t step = 0;
  for (; step < 3; ++step) limit.served({.step = step, .produced = 1});  // in lockstep nothing is known yet
  limit.served({.step = step++, .produced = 8});
  std::uint64_t produced = 8;
  for (int batch = 0; batch < 200; ++batch) {
    for (int i = 0; i < 12; ++i, ++step) {
      limit.served({.step = step, .produced = produced, .now_s = static_cast<double>(step)});
    }
    ++produced;
  }
  CHECK(limit.now() >= 47);
  CHECK(limit.now() <= 50);

  // Two batches arrive while a full queue blocks the producer.
  const auto now_s = static_cast<double>(step);
  limit.served({.step = step, .produced = produced + 2, .now_s = now_s, .blocked_s = 12});
  CHECK(limit.now() >= 40);
}

class Reuse final : public Policy {
 public:
  [[nodiscard]] Decision decide(const Signals& /*signals*/) override { return Decision::reuse; }
  void served(Decision /*decision*/, const Signals& /*signals*/) override {}
};

std::unique_ptr<RuledPolicy> reuse(std::int64_t max_uses) {
  PolicyOptions options;
  options.max_uses = max_uses;
  auto policy = with_rules(std::make_unique<Reuse>(), options);
  // One batch per step of a second: "auto" is 4.
  for (std::uint64_t step = 0; step < 100; ++step) {
    policy->served(Decision::fresh, {.step = step, .uses = 1, .produced = step, .now_s = static_cast<double>(step)});
  }
  return policy;
}

TEST_CASE("auto holds while the job is at its cap, a number always") {
  for (const std::int64_t max_uses : {kAutomatic, std::int64_t{4}}) {
    CAPTURE(max_uses);
    const auto policy = reuse(max_uses);
    REQUIRE(policy->max_uses() == 4);
    CHECK(policy->decide({.step = 100, .uses = 3}) == Decision::reuse);
    CHECK_FALSE(policy->is_at_cap());
    CHECK(policy->decide({.step = 100, .uses = 4}) == Decision::fresh);
    CHECK(policy->is_at_cap());
    policy->begin_step(false);
    CHECK(policy->decide({.step = 100, .uses = 4}) == (max_uses == kAutomatic ? Decision::reuse : Decision::fresh));
    CHECK(policy->is_at_cap());  // reported to the other ranks
    CHECK(policy->decide({.step = 100, .uses = 0}) == Decision::fresh);
    CHECK_FALSE(policy->is_at_cap());
  }
}

// A source with 200 batches of a step each, an outage of 1,000 steps, and 200 more batches.
std::shared_ptr<const SourceSpec> with_outage() {
  auto spec = std::make_shared<SourceSpec>();
  spec->kind = SourceKind::trace;
  spec->work.assign(200, 1);
  spec->work.push_back(1000);
  spec->work.resize(401, 1);
  return spec;
}

std::shared_ptr<const SourceSpec> steady() {
  auto spec = std::make_shared<SourceSpec>();
  spec->mean_s = 1;
  return spec;
}

TEST_CASE("auto: an outage of all ranks makes them wait, one of a few stops nobody") {
  Scenario scenario;
  scenario.steps = 1300;
  scenario.sources = {with_outage()};
  for (const std::uint64_t ranks : {1U, 2U, 8U}) {
    CAPTURE(ranks);
    scenario.ranks = ranks;
    const Outcome outcome = simulate::simulate(scenario, PolicyRegistry::builtin());
    CHECK(outcome.stall_s > 700);
    CHECK(outcome.uses_max <= 8);  // includes the uses until the ranks have heard of each other
  }
  // An outage of one rank in eight; the other sources never pause.
  scenario.ranks = 8;
  scenario.sources = {with_outage(), steady(), steady(), steady(), steady(), steady(), steady(), steady()};
  Outcome outcome = simulate::simulate(scenario, PolicyRegistry::builtin());
  CHECK(outcome.stall_s < 1);
  CHECK(outcome.uses_max > 8);
  // An explicit cap is observed by each rank.
  scenario.policy.max_uses = 4;
  outcome = simulate::simulate(scenario, PolicyRegistry::builtin());
  CHECK(outcome.stall_s > 700);
  CHECK(outcome.uses_max <= 4);
}

TEST_CASE("auto costs no policy anything behind a source without outages") {
  for (const std::string name : {"adaptive", "greedy", "proportional", "watermark"}) {
    if (testing::kSanitized && name != "adaptive") continue;
    CAPTURE(name);
    for (const SourceKind kind : {SourceKind::constant, SourceKind::exponential, SourceKind::lognormal}) {
      CAPTURE(to_string(kind));
      for (const double ratio : {0.8, 1.5, 3.0, 12.0}) {
        CAPTURE(ratio);
        auto spec = std::make_shared<SourceSpec>();
        spec->kind = kind;
        spec->mean_s = ratio;
        Scenario scenario;
        scenario.sources = {spec};
        scenario.steps = 20'000;
        scenario.policy.name = name;
        const Outcome outcome = simulate::simulate(scenario, PolicyRegistry::builtin());
        CHECK(outcome.stall_s <= 0.005 * outcome.wall_s);
      }
    }
  }
}

TEST_CASE("an automatic pool takes no more memory than a queue of 16 and a pool of 4, and the least for small queues") {
  struct Case {
    std::int64_t capacity;
    std::int64_t pool;
  };
  for (const Case& one : {Case{1, 4}, Case{2, 4}, Case{4, 6}, Case{6, 9}, Case{8, 12}, Case{12, 8}, Case{16, 4},
                          Case{64, 4}, Case{0, 4}}) {
    CAPTURE(one.capacity);
    QueueOptions queue;
    queue.capacity = one.capacity;
    CHECK(pool_of(queue) == one.pool);
    queue.pool = 3;
    CHECK(pool_of(queue) == 3);
  }
  CHECK(slots_of(QueueOptions{}) == 21);
}

}  // namespace
}  // namespace forebay::test_uses_limit
