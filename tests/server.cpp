// One step of the server: what is decided, and what is served. No other thread and no other rank
// takes part.
#include <random>

#include "ranks/agreed_error.hpp"
#include "ring/probes.hpp"
#include "server_bench.hpp"
#include "test.hpp"

namespace forebay::test_server {

using namespace forebay::ring;
using namespace forebay::serve;

namespace {

using namespace testing;
using namespace std::chrono_literals;

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
  CHECK_FALSE(bench.step().adjacent);  // the older of two batches with one use each
  CHECK_FALSE(bench.step().adjacent);
  CHECK(bench.warnings.empty());
  for (int capped = 0; capped < 3; ++capped) CHECK_FALSE(bench.step().adjacent);
  REQUIRE(bench.warnings.size() == 1);
  CHECK(contains(bench.warnings.front(), "policy.max_uses = 2"));

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

TEST_CASE("a change of a batch is seen at its reuse, wherever it is, and nothing else is taken for one") {
  const std::uint64_t seed = std::random_device{}();
  MESSAGE("seed ", seed);
  Random random(seed);
  constexpr std::size_t kSamples = 64;
  constexpr std::size_t kSample = 3000;
  constexpr std::size_t kMask = kSamples * kSample;
  constexpr std::size_t kBytes = kMask + kSamples * 50;
  std::vector<std::byte> batch(kBytes);
  for (std::byte& byte : batch) byte = static_cast<std::byte>(random.below(256));
  Probes<256, 8> probes(std::array{ProbedRange{0, kMask}, ProbedRange{kMask, kBytes}}, 2, seed);
  probes.keep(1, batch.data());
  // How many uses it takes until a change of these bytes is noticed.
  const auto uses_until_seen = [&](std::size_t begin, std::size_t bytes) {
    auto changed = batch;
    for (std::size_t i = begin; i < begin + bytes; ++i) changed[i] ^= std::byte{1};
    const std::uint64_t first = random.below(1000);
    for (std::uint64_t use = 1; use <= 32; ++use) {
      if (probes.are_unchanged(1, changed.data(), first + use)) continue;
      const std::size_t at = probes.changed_at(1, changed.data());
      CHECK(at + 8 > begin);
      CHECK(at < begin + bytes);
      return use;
    }
    return std::uint64_t{0};
  };
  for (std::uint64_t use = 0; use < 100; ++use) CHECK(probes.are_unchanged(1, batch.data(), use));
  CHECK(uses_until_seen(0, kBytes) == 1);
  CHECK(uses_until_seen(0, kMask) == 1);
  CHECK(uses_until_seen(kMask, kBytes - kMask) == 1);
  for (std::size_t sample = 0; sample < kSamples; ++sample) CHECK(uses_until_seen(sample * kSample, kSample) > 0);
  // Half the rows of each sample, as a CutMix by the program would change.
  auto changed = batch;
  for (std::size_t i = 0; i < kMask; ++i) changed[i] ^= i % kSample < kSample / 2 ? std::byte{1} : std::byte{0};
  bool is_seen = false;
  for (std::uint64_t use = 0; use < 8; ++use) is_seen = is_seen || !probes.are_unchanged(1, changed.data(), use);
  CHECK(is_seen);
}

TEST_CASE("a batch that was written to is not served again: the run ends and says what was changed") {
  for (const bool labels : {false, true}) {
    Bench bench;
    bench.script.decide = [](const Signals& signals) { return signals.step == 0 ? Decision::fresh : Decision::reuse; };
    bench.publish();
    const Served first = bench.step();
    bench.store->keep(first.slot);
    CHECK_FALSE(bench.step().padding);
    if (labels) {
      for (int i = 0; i < 4; ++i) bench.store->labels(first.slot)[i] = 77;
    } else {
      for (int i = 0; i < 48; ++i) bench.store->begin_of(first.slot)[i] = std::byte{7};
    }
    CHECK(bench.step().padding);
    REQUIRE(bench.failure.happened());
    const std::string text = ranks::described(bench.failure.error()).text;
    CHECK(text.find(labels ? "its labels" : "of its images") != std::string::npos);
    for (const char* word : {"step 2", "batch 0 of epoch 0", "clone()", "copy=False"}) {
      CHECK(contains(text, word));
    }
  }
}

TEST_CASE("batches are counted in their epochs, and those that leave the pool with their uses") {
  Bench bench;
  bench.publish(2);
  bench.publish(2, false, 1);
  for (int step = 0; step < 4; ++step) (void)bench.step();
  CHECK(bench.server.served_of(0) == 2);
  CHECK(bench.server.served_of(1) == 2);
  CHECK(bench.left_pool == std::vector<std::uint64_t>{1, 1});
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
  const auto depth = [&](const StepContext& context) {
    (void)bench.step(context);
    return bench.script.asked.back().depth;
  };
  CHECK(depth({}) == 1);
  CHECK(depth({.is_all_planned = true}) == 1);  // one batch is still to be produced
  CHECK(depth({.is_waited_for = true}) == 4);
  bench.publish();
  CHECK(depth({}) == 2);
  CHECK(depth({.is_all_planned = true}) == 4);
}

TEST_CASE("what a policy throws is kept, and the step is padded, or served if there is nothing to pad with") {
  Bench deciding;
  deciding.publish(2);
  (void)deciding.step();
  deciding.script.decide = [](const Signals&) -> Decision { throw std::runtime_error("cannot decide"); };
  check_padding(deciding.step());
  CHECK(ranks::described(deciding.failure.error()).text == "cannot decide");

  Bench hearing;
  hearing.publish(2);
  hearing.script.serve = [](Decision) { throw std::runtime_error("lost count"); };
  const Served first = hearing.step();
  CHECK(first.decision == Decision::fresh);
  CHECK_FALSE(first.padding);
  CHECK(ranks::described(hearing.failure.error()).text == "lost count");
  check_padding(hearing.step());
  CHECK(hearing.ring.taken() == 1);

  Bench alone;
  alone.publish(1);
  alone.script.serve = hearing.script.serve;
  CHECK(alone.step({.is_alone = true}).slot == LeaseMaker::kEmpty);
  CHECK(alone.ring.taken() == 0);
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
  const auto step = [&](const StepContext& context, const std::optional<Signals>& known) {
    const Server::Alike alike = bench.server.serve_alike(context, known);
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
  bench.script.decide = [](const Signals&) { return Decision::wait; };  // which is not allowed in lockstep
  alike = step({}, shared);
  CHECK(alike.decision == Decision::reuse);
  CHECK_FALSE(alike.served.padding);
  CHECK_FALSE(alike.served.decided_fresh);
  alike = step({}, std::nullopt);
  CHECK_FALSE(alike.decision);
  check_padding(alike.served);

  // A lease that ends while the policy decides makes room only for the next step (ring invariant
  // R6).
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

// Steps that wait: for a fresh batch, for a limited time, until the wait is broken, and too long.
// No other thread takes part.

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
  CHECK(served.depth == 0);  // when the step began
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

TEST_CASE("a policy that waits by a rule of its own is asked again now and then") {
  Bench bench;
  bench.publish();
  (void)bench.step();
  bench.script.asked.clear();
  bench.script.decide = [](const Signals& now) { return now.waited_s < 0.02 ? Decision::wait : Decision::reuse; };
  CHECK(bench.step().decision == Decision::reuse);
  CHECK(bench.script.asked.back().waited_s >= 0.02);
  CHECK(bench.script.asked.size() <= 6);
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

// The ranks in lockstep have decided for a fresh batch, which this rank does not have yet.
Server::Alike serve_agreed(Bench& bench) {
  const Server::Alike step = bench.server.serve_alike({}, Signals{.step = 1, .depth = 1, .capacity = 4, .uses = 1});
  bench.server.returned(step.served, Server::Clock::now());
  return step;
}

TEST_CASE("a stop breaks no wait for a step that is fresh on all ranks: the others serve their batches in it") {
  for (const bool of_this_rank : {true, false}) {
    CAPTURE(of_this_rank);
    Bench bench;
    bench.publish();
    (void)bench.step();
    bench.stop = of_this_rank;
    int polls = 0;
    bench.interrupted = [&] {
      if (++polls == 10) bench.publish();
      return true;
    };
    const Server::Alike step = serve_agreed(bench);
    CHECK(polls >= 10);
    CHECK(step.decision == Decision::fresh);
    CHECK(step.served.decision == Decision::fresh);
    CHECK_FALSE(step.served.padding);
    CHECK_FALSE(bench.failure.happened());
  }
}

TEST_CASE("a wait that all ranks have agreed on ends with this rank's failure, with the watchdog, and if a rank left") {
  Bench failing;
  failing.publish();
  (void)failing.step();
  failing.interrupted = [&] {
    failing.failure.raise(std::make_exception_ptr(Error("the store is gone")));
    return true;
  };
  check_padding(serve_agreed(failing).served);

  Bench starving;
  starving.publish();
  (void)starving.step();
  auto now = RunningTime::Clock::time_point{};
  starving.interrupted = [&] {
    starving.time.tick(now += 1s);
    return true;
  };
  check_padding(serve_agreed(starving).served);
  REQUIRE(starving.failure.happened());
  CHECK_THROWS_AS(starving.failure.rethrow(), WatchdogError);

  Bench left;
  left.publish();
  (void)left.step();
  left.interrupted = [&]() -> bool { throw Error("rank 1 has left"); };
  CHECK_THROWS_WITH_AS((void)serve_agreed(left), "rank 1 has left", Error);
}

TEST_CASE("a rank whose own batch is at policy.max_uses is padded where the others, and what all share, reuse") {
  for (const OnMaxUses on_max_uses : {OnMaxUses::wait, OnMaxUses::error, OnMaxUses::warn}) {
    CAPTURE(static_cast<int>(on_max_uses));
    Options options = small_queue();
    options.policy.max_uses = 2;
    options.policy.on_max_uses = on_max_uses;
    Bench bench(options);
    bench.script.decide = [](const Signals& now) { return now.step == 0 ? Decision::fresh : Decision::reuse; };
    bench.publish();
    (void)bench.step();
    const auto reuse = [&](bool must_pad) {
      const Signals shared{.step = 1, .depth = 1, .capacity = 4, .uses = 1};
      const Server::Alike step = bench.server.serve_alike({.must_pad = must_pad}, shared);
      bench.server.returned(step.served, Server::Clock::now());
      CHECK(step.decision == Decision::reuse);
      return step.served;
    };
    check_padding(reuse(true));  // a use beyond what the others' batches have had
    const Served served = reuse(false);
    CHECK(served.use_index == 2);
    CHECK(served.padding == (on_max_uses != OnMaxUses::warn));
    CHECK_FALSE(bench.failure.happened());
  }
}

TEST_CASE("a rank that waits for others is not one whose storage delivers nothing, however long it takes") {
  for (const bool in_lockstep : {false, true}) {
    CAPTURE(in_lockstep);
    Bench bench;
    bench.publish();
    (void)bench.step();
    bench.script.decide = [](const Signals&) { return Decision::reuse; };
    auto now = RunningTime::Clock::time_point{};
    for (int second = 0; second < 30; ++second) {
      bench.time.tick(now += 1s);
      const StepContext context{.must_pad = second >= 6 && second < 24};
      if (in_lockstep) {
        (void)bench.server.serve_alike(context, Signals{.step = 1, .capacity = 4, .uses = 1});
      } else {
        (void)bench.step(context);
      }
    }
    CHECK_FALSE(bench.failure.happened());
  }
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
    CHECK(ranks::described(bench.failure.error()).text.starts_with("no fresh batch for 1"));
    CHECK(ranks::described(bench.failure.error()).text.ends_with("(policy.watchdog_s): 2 readers asleep"));
    CHECK_THROWS_AS(bench.failure.rethrow(), WatchdogError);
  }
}

TEST_CASE("the watchdog does not count the time in which what makes the batches is paused") {
  Bench bench;
  bench.publish();
  (void)bench.step();
  bench.claim();
  auto now = RunningTime::Clock::time_point{};
  bench.is_paused = true;
  bench.interrupted = [&] {
    bench.time.tick(now += 1s);
    return false;
  };
  bench.script.decide = [](const Signals&) { return Decision::reuse; };
  for (int step = 0; step < 40; ++step) {
    (void)bench.interrupted();
    (void)bench.step();
  }
  CHECK_FALSE(bench.failure.happened());
  bench.script.decide = [](const Signals&) { return Decision::fresh; };
  int seconds = 0;
  bench.interrupted = [&] {  // called during a wait
    bench.time.tick(now += 1s);
    bench.is_paused = ++seconds < 30;
    return false;
  };
  (void)bench.step();
  CHECK(ranks::described(bench.failure.error()).text.starts_with("no fresh batch for 1"));
  CHECK(seconds >= 40);
  CHECK(seconds < 60);
}

TEST_CASE("a reserve does not hide a store from which nothing arrives") {
  for (const bool in_lockstep : {false, true}) {
    for (const bool must_pad : {false, true}) {
      CAPTURES(in_lockstep, must_pad);
      Bench bench;
      bench.publish(3);
      bench.claim();  // never published
      int step = 0;
      bench.script.decide = [&](const Signals&) { return step % 4 == 0 ? Decision::fresh : Decision::reuse; };
      auto now = RunningTime::Clock::time_point{};
      for (; step < 40 && !bench.failure.happened(); ++step) {
        const StepContext context{.must_pad = must_pad && step > 0};
        if (in_lockstep) {
          const Signals shared{.step = static_cast<std::uint64_t>(step), .depth = 3, .capacity = 4, .uses = 1};
          bench.server.returned(bench.server.serve_alike(context, shared).served, Server::Clock::now());
        } else {
          (void)bench.step(context);
        }
        bench.time.tick(now += 1s);
      }
      REQUIRE(bench.failure.happened());
      CHECK(step >= 10);
      CHECK(step <= 15);  // the watchdog's clock never runs ahead
      CHECK_THROWS_AS(bench.failure.rethrow(), WatchdogError);
    }
  }
}

TEST_CASE("a queue that is full expects nothing, however long the trainer takes") {
  Bench bench;
  bench.publish(4);
  bench.script.decide = [](const Signals& now) { return now.uses == 0 ? Decision::fresh : Decision::reuse; };
  auto now = RunningTime::Clock::time_point{};
  for (int step = 0; step < 40; ++step) {
    (void)bench.step();
    bench.time.tick(now += 1s);
  }
  CHECK_FALSE(bench.failure.happened());
}

}  // namespace
}  // namespace forebay::test_server
