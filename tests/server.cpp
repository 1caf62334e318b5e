// One step: what is decided, and what is served. No other thread and no other rank takes part.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "device/host_device.hpp"
#include "ring/queue_slots.hpp"
#include "serve/server.hpp"

namespace forebay {
namespace {

using namespace std::chrono_literals;

constexpr SlotFormat kTiny{.batch_size = 4, .height = 2, .width = 2, .dtype = DType::uint8, .layout = Layout::nhwc};
constexpr std::uint64_t kEndless = UINT64_MAX;

// Decides what the test says, and keeps what it is told.
struct Script {
  std::function<Decision(const Signals&)> decide = [](const Signals&) { return Decision::fresh; };
  std::function<void(Decision)> serve = [](Decision) {};
  std::vector<Signals> asked;
  std::vector<Decision> told;
};

class Scripted final : public Policy {
 public:
  explicit Scripted(Script& script) : script_(script) {}
  [[nodiscard]] Decision decide(const Signals& signals) override {
    script_.asked.push_back(signals);
    return script_.decide(signals);
  }
  void served(Decision decision, const Signals&) override {
    script_.serve(decision);
    script_.told.push_back(decision);
  }

 private:
  Script& script_;
};

Options small_queue() {
  Options options;
  options.queue.capacity = 4;
  options.queue.pool = 2;
  options.queue.max_leases = 2;
  options.policy.watchdog_s = 10;
  return options;
}

// A server, its ring and its store; the test is the producer too.
struct Bench {
  explicit Bench(const Options& options = small_queue(), std::uint64_t planned = kEndless)
      : store(std::make_shared<SlotStore>(std::make_shared<HostDevice>(), kTiny,
                                          SlotCounts{.slots = static_cast<std::uint32_t>(slots_of(options.queue))})),
        ring(static_cast<std::uint32_t>(options.queue.capacity), store->size(), planned),
        server(ServerLinks{.store = *store,
                           .ring = ring,
                           .time = time,
                           .failure = failure,
                           .retired = [this](std::uint64_t uses) { retired.push_back(uses); },
                           .stop_requested = [this] { return stop; },
                           .interrupted = [this] { return interrupted(); },
                           .workers = [] { return std::string("2 readers asleep"); },
                           .warn = [this](const std::string& line) { warnings.push_back(line); },
                           .open_epochs = 2},
               options, with_rules(std::make_unique<Scripted>(script), rules(options))) {}

  static PolicyOptions rules(const Options& options) {
    PolicyOptions rules;
    rules.max_uses = options.policy.max_uses;
    rules.on_max_uses = options.policy.on_max_uses;
    rules.max_wait_ms = options.policy.max_wait_ms;
    return rules;
  }

  void publish(int batches = 1, bool padding = false, std::uint64_t epoch = 0) {
    const std::atomic<bool> stopped{false};
    for (int i = 0; i < batches; ++i) {
      SlotRing::Claim claim{};
      REQUIRE(ring.claim(stopped, claim));
      store->begin(claim.slot, claim.turn, {.epoch = epoch, .batch = claim.turn, .size = 4, .padding = padding});
      ring.publish(claim.turn);
    }
  }
  // One step to its end.
  Served step(const Outlook& outlook = {}) {
    const Served served = server.serve(outlook, Server::Clock::now());
    server.returned(served, Server::Clock::now());
    return served;
  }
  Lease lease(const Served& served) { return LeaseMaker::make(store, served.slot, {}); }

  std::shared_ptr<SlotStore> store;
  SlotRing ring;
  RunningTime time{1s, RunningTime::Clock::time_point{}};
  Failure failure;
  Script script;
  std::vector<std::uint64_t> retired;
  std::vector<std::string> warnings;
  bool stop = false;
  std::function<bool()> interrupted = [] { return false; };
  Server server;
};

void check_padding(const Served& served) {
  CHECK(served.padding);
  CHECK(served.decision == Decision::reuse);
  CHECK(served.use_index > 0);
}

TEST_CASE(
    "a cap on uses that only warns is told once, and every reuse says whether it serves the batch of the step before") {
  Options options = small_queue();
  options.policy.max_uses = 2;
  options.policy.on_max_uses = OnMaxUses::warn;
  options.policy.pick = Pick::least_used;
  Bench bench(options);
  bench.script.decide = [](const Signals& signals) { return signals.step < 2 ? Decision::fresh : Decision::reuse; };
  bench.publish(2);
  CHECK_FALSE(bench.step().adjacent);
  CHECK_FALSE(bench.step().adjacent);
  CHECK_FALSE(bench.step().adjacent);  // the older of two with one use each
  CHECK_FALSE(bench.step().adjacent);
  CHECK(bench.warnings.empty());
  for (int capped = 0; capped < 3; ++capped) CHECK_FALSE(bench.step().adjacent);
  REQUIRE(bench.warnings.size() == 1);
  CHECK(bench.warnings.front().find("policy.max_uses = 2") != std::string::npos);

  Bench alone;
  alone.script.decide = [](const Signals& signals) { return signals.step == 0 ? Decision::fresh : Decision::reuse; };
  alone.publish();
  CHECK_FALSE(alone.step().adjacent);
  CHECK(alone.step().adjacent);
  CHECK(alone.step().adjacent);
}

TEST_CASE("the first batch is fresh, and then the policy decides") {
  Bench bench;
  bench.script.decide = [](const Signals& signals) { return signals.step == 3 ? Decision::fresh : Decision::reuse; };
  bench.publish(2);
  const Served first = bench.step();
  CHECK(first.decision == Decision::fresh);
  CHECK(first.depth == 2);
  for (std::uint64_t use = 1; use < 3; ++use) {
    const Served again = bench.step();
    CHECK(again.slot == first.slot);
    CHECK(again.use_index == use);
    CHECK(again.decision == Decision::reuse);
    CHECK_FALSE(again.padding);
    CHECK(bench.server.counts().uses == use + 1);
  }
  const Served second = bench.step();
  CHECK(second.decision == Decision::fresh);
  CHECK(second.slot != first.slot);
  CHECK(bench.script.told == std::vector{Decision::fresh, Decision::reuse, Decision::reuse, Decision::fresh});
  const Signals& last = bench.script.asked.back();
  CHECK(last.step == 3);
  CHECK(last.depth == 1);
  CHECK(last.capacity == 4);
  CHECK(last.uses == 3);
  CHECK(last.produced == 2);
  const Server::Counts& counts = bench.server.counts();
  CHECK(counts.steps == 4);
  CHECK(counts.fresh == 2);
  CHECK(counts.fresh_samples == 8);
  CHECK(counts.offered == 4);
}

TEST_CASE("batches are counted in their epochs, and those that leave the pool with their uses") {
  Bench bench;
  bench.publish(2);
  bench.publish(2, false, 1);
  for (int step = 0; step < 4; ++step) (void)bench.step();
  CHECK(bench.server.served_of(0) == 2);
  CHECK(bench.server.served_of(1) == 2);
  CHECK(bench.retired == std::vector<std::uint64_t>{1, 1});
  CHECK(bench.server.residents().size() == 2);
  bench.server.forget(0);
  bench.publish(1, false, 2);
  (void)bench.step();
  CHECK(bench.server.served_of(2) == 1);
}

TEST_CASE("a rank that must pad serves a batch again and takes none, in evaluation nothing") {
  Bench bench;
  bench.publish(2);
  (void)bench.step();
  check_padding(bench.step({.must_pad = true}));
  CHECK(bench.ring.taken() == 1);
  CHECK(bench.server.counts().offered == 1);
  CHECK(bench.script.asked.empty());

  Options options = small_queue();
  options.run.eval = true;
  Bench evaluation(options);
  evaluation.publish(2);
  (void)evaluation.step();
  const Served nothing = evaluation.step({.must_pad = true});
  CHECK(nothing.slot == LeaseMaker::kEmpty);
  CHECK(nothing.padding);
  CHECK(nothing.decision == Decision::fresh);
  CHECK(evaluation.server.counts().fresh == 1);
}

TEST_CASE("a batch of another rank's is padding, however it comes") {
  Bench bench;
  bench.publish(1, true);
  check_padding(bench.step());
  CHECK(bench.server.counts().fresh == 0);
  CHECK(bench.server.served_of(0) == 0);
}

TEST_CASE("a reserve that nobody has use for is shown to the policy as a full queue") {
  Bench bench(small_queue(), 3);
  bench.publish(2);
  (void)bench.step();
  bench.script.decide = [](const Signals&) { return Decision::reuse; };
  const auto depth = [&](const Outlook& outlook) {
    (void)bench.step(outlook);
    return bench.script.asked.back().depth;
  };
  CHECK(depth({}) == 1);
  CHECK(depth({.is_all_planned = true}) == 1);  // one is still to be produced
  CHECK(depth({.is_waited_for = true}) == 4);
  bench.publish();
  CHECK(depth({}) == 2);
  CHECK(depth({.is_all_planned = true}) == 4);
}

TEST_CASE("a fresh decision waits for the batch") {
  Bench bench;
  bench.publish();
  (void)bench.step();
  int polls = 0;
  bench.interrupted = [&] {
    if (++polls == 3) bench.publish();
    return false;
  };
  const Served served = bench.step();
  CHECK(served.decision == Decision::fresh);
  CHECK(served.depth == 0);  // on entry
  CHECK(polls >= 3);
}

TEST_CASE("a wait within policy.max_wait_ms ends with the batch that comes, or with a reuse") {
  Options options = small_queue();
  options.policy.max_wait_ms = 60'000;
  Bench bench(options);
  bench.publish();
  (void)bench.step();
  bench.script.decide = [](const Signals&) { return Decision::reuse; };
  bench.interrupted = [&] {
    bench.publish();
    return false;
  };
  CHECK(bench.step().decision == Decision::fresh);

  options.policy.max_wait_ms = 1;
  Bench brief(options);
  brief.publish();
  (void)brief.step();
  brief.script.decide = [](const Signals&) { return Decision::reuse; };
  const Served again = brief.step();
  CHECK(again.decision == Decision::reuse);
  CHECK_FALSE(again.padding);
  CHECK(brief.script.asked.back().waited_s >= 0.001);
}

TEST_CASE("a wait that is broken ends with padding") {
  Bench bench;
  bench.publish();
  CHECK(bench.server.wait_for_first_batch());
  (void)bench.step();
  bench.interrupted = [] { return true; };
  check_padding(bench.step());
  CHECK_FALSE(bench.failure.happened());

  Bench failing;
  failing.publish();
  (void)failing.step();
  failing.interrupted = [&] {
    failing.failure.raise(std::make_exception_ptr(Error("the store is gone")));
    return false;
  };
  check_padding(failing.step());

  Bench empty;
  empty.interrupted = [] { return true; };
  CHECK_FALSE(empty.server.wait_for_first_batch());
  CHECK(empty.step().slot == LeaseMaker::kEmpty);
}

TEST_CASE("a queue that stays empty for policy.watchdog_s of the process's time is an error, whatever is served") {
  for (const Decision decision : {Decision::fresh, Decision::reuse}) {
    Bench bench;
    bench.publish();
    (void)bench.step();
    bench.script.decide = [decision](const Signals&) { return decision; };
    auto now = RunningTime::Clock::time_point{};
    const auto pass = [&] {
      bench.time.tick(now += 1s);
      return false;
    };
    bench.interrupted = pass;
    for (int step = 0; step < 20 && !bench.failure.happened(); ++step) {
      (void)bench.step();
      if (decision == Decision::reuse) (void)pass();
    }
    REQUIRE(bench.failure.happened());
    CHECK(bench.failure.text().starts_with("no fresh batch for 1"));
    CHECK(bench.failure.text().ends_with("(policy.watchdog_s): 2 readers asleep"));
    CHECK_THROWS_AS(bench.failure.rethrow(), WatchdogError);
  }
}

TEST_CASE("what a policy throws is kept, and the step is padded or served") {
  Bench deciding;
  deciding.publish(2);
  (void)deciding.step();
  deciding.script.decide = [](const Signals&) -> Decision { throw std::runtime_error("cannot decide"); };
  check_padding(deciding.step());
  CHECK(deciding.failure.text() == "cannot decide");

  Bench hearing;
  hearing.publish(2);
  hearing.script.serve = [](Decision) { throw std::runtime_error("lost count"); };
  CHECK(hearing.step().decision == Decision::fresh);
  CHECK(hearing.failure.text() == "lost count");
}

TEST_CASE("a step without a lease to spare gets a batch that is leased already") {
  Bench bench;
  bench.publish(4);
  const Served first = bench.step();
  const Served second = bench.step();
  const Lease older = bench.lease(first);
  CHECK_NOTHROW(bench.server.require_free_lease());
  const Lease newer = bench.lease(second);
  CHECK_THROWS_WITH_AS(bench.server.require_free_lease(), doctest::Contains("2 leases are held"), Error);
  const Served served = bench.step();
  check_padding(served);
  CHECK(served.slot == first.slot);
  CHECK(bench.ring.taken() == 2);
}

TEST_CASE("alike with other ranks the policy sees what all share, and its decision is told whatever is served") {
  Bench bench;
  bench.publish(2);
  const Signals shared{.step = 7, .depth = 1, .capacity = 4, .uses = 1};
  const auto step = [&](const Outlook& outlook, const std::optional<Signals>& known) {
    const Server::Alike alike = bench.server.serve_alike(outlook, known);
    bench.server.returned(alike.served, Server::Clock::now());
    return alike;
  };
  Server::Alike alike = step({}, shared);
  CHECK(bench.script.asked.back().step == 7);
  CHECK(alike.decision == Decision::fresh);
  CHECK(alike.served.decision == Decision::fresh);
  CHECK(alike.served.decided_fresh);
  alike = step({.must_pad = true}, shared);
  CHECK(alike.decision == Decision::fresh);
  check_padding(alike.served);
  CHECK(alike.served.decided_fresh);
  bench.script.decide = [](const Signals&) { return Decision::wait; };  // nobody may wait
  alike = step({}, shared);
  CHECK(alike.decision == Decision::reuse);
  CHECK_FALSE(alike.served.padding);
  CHECK_FALSE(alike.served.decided_fresh);
  alike = step({}, std::nullopt);
  CHECK_FALSE(alike.decision);
  check_padding(alike.served);

  // A lease that ends while the policy decides makes room for the next step only (ring invariant R6).
  std::vector<Lease> leases;
  leases.push_back(bench.lease(alike.served));
  leases.push_back(bench.lease(alike.served));
  bench.script.decide = [&](const Signals&) {
    leases.pop_back();
    return Decision::fresh;
  };
  alike = step({}, shared);
  check_padding(alike.served);
  CHECK(alike.served.decided_fresh);
  CHECK(bench.ring.taken() == 1);
  bench.script.decide = [](const Signals&) { return Decision::fresh; };
  CHECK(step({}, shared).served.decision == Decision::fresh);
}

}  // namespace
}  // namespace forebay
