// A step that waits: for a fresh batch, for a limited time, until it is broken, and too long. No other thread takes
// part.

#include <doctest/doctest.h>

#include <chrono>
#include <exception>

#include <forebay/error.hpp>

#include "server_bench.hpp"

namespace forebay {
namespace {

using testing::Bench;
using testing::check_padding;
using testing::small_queue;

using namespace std::chrono_literals;

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

// Ranks in lockstep have decided for a fresh batch, which this one does not have yet.
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
    check_padding(reuse(true));  // a use that the others' batches do not have
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
    CHECK(bench.failure.text().starts_with("no fresh batch for 1"));
    CHECK(bench.failure.text().ends_with("(policy.watchdog_s): 2 readers asleep"));
    CHECK_THROWS_AS(bench.failure.rethrow(), WatchdogError);
  }
}

TEST_CASE("a reserve does not hide a store from which nothing arrives") {
  for (const bool in_lockstep : {false, true}) {
    for (const bool must_pad : {false, true}) {
      CAPTURE(in_lockstep);
      CAPTURE(must_pad);
      Bench bench;
      bench.publish(3);
      bench.claim();  // and is never published
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
      CHECK(step <= 15);  // a lower bound of the time that has passed
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
}  // namespace forebay
