// What a policy is told in lockstep: reports in, signals out, and that a batch it is told of is there on every rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "ranks/lockstep.hpp"

namespace forebay {
namespace {

constexpr QueueOptions kQueue{.capacity = 8, .pool = 2, .max_leases = 2};

JobReport report(std::uint64_t step, std::int64_t fresh, const Progress& least) {
  JobReport made;
  made.step = step;
  made.fresh = fresh;
  made.least = least;
  return made;
}

TEST_CASE("the first steps: one batch that all ranks have, then nothing is known") {
  Lockstep lockstep(3, 2, kQueue, Pick::least_used);
  CHECK(lockstep.signals(nullptr).depth == 1);
  CHECK(lockstep.signals(nullptr).uses == 0);
  lockstep.served(Decision::fresh);
  CHECK(lockstep.fresh() == 1);
  CHECK(lockstep.signals(nullptr).depth == 0);
  CHECK(lockstep.signals(nullptr).uses == 1);
  lockstep.served(Decision::reuse);
  const JobReport first = report(0, 0, {.ready = 5, .produced = 5, .now_ns = 2'000'000'000, .blocked_ns = 500'000'000});
  const Signals known = lockstep.signals(&first);
  CHECK(known.step == 2);
  CHECK(known.depth == 4);  // one of the five was taken since
  CHECK(known.produced == 5);
  CHECK(known.capacity == 8);
  CHECK(known.uses == 2);
  CHECK(known.now_s == doctest::Approx(2));
  CHECK(known.blocked_s == doctest::Approx(0.5));
}

TEST_CASE("ranks that have nothing left keep nobody waiting") {
  Lockstep lockstep(2, 1, kQueue, Pick::current);
  (void)lockstep.signals(nullptr);
  lockstep.served(Decision::fresh);
  const JobReport drained = report(0, 0, {.now_ns = 1, .blocked_ns = 0});
  CHECK(lockstep.signals(&drained).depth == 8);
  CHECK(lockstep.signals(&drained).produced == 1);
}

TEST_CASE(
    "ranks that have served all open epochs count again once they have something, and the job then knows no less") {
  Lockstep lockstep(2, 1, kQueue, Pick::current);
  (void)lockstep.signals(nullptr);
  lockstep.served(Decision::fresh);
  std::int64_t step = -1;
  const auto hears = [&](const Progress& least) {
    ++step;
    const JobReport heard = report(static_cast<std::uint64_t>(step), step == 0 ? 0 : 2, least);
    const Signals known = lockstep.signals(&heard);
    lockstep.served(Decision::reuse);
    return known;
  };
  CHECK(hears({.ready = 4, .produced = 10}).produced == 10);
  CHECK(hears({.ready = 3, .produced = 50}).produced == 50);  // without one that is idle
  CHECK(hears({.ready = 1, .produced = 12}).produced == 50);
  const Signals all_idle = hears({.ready = Progress::kIdle});
  CHECK(all_idle.depth == 0);
  CHECK(all_idle.produced == 50);
}

TEST_CASE("a rank that was idle when it spoke is left out of what is heard of that step") {
  Lockstep lockstep(2, 1, kQueue, Pick::current);
  const auto is_left_out = [&](std::uint64_t step) {
    const JobReport heard = report(step, 0, {.ready = 2, .produced = 2});
    return lockstep.is_left_out(&heard);
  };
  lockstep.reports({.ready = 3, .produced = 3});
  CHECK_FALSE(is_left_out(0));
  (void)lockstep.signals(nullptr);
  lockstep.served(Decision::fresh);
  lockstep.reports({.ready = Progress::kIdle});
  CHECK(is_left_out(0));
  CHECK(is_left_out(1));
  CHECK_FALSE(is_left_out(2));
  CHECK_FALSE(lockstep.is_left_out(nullptr));
}

TEST_CASE("a disagreement of the ranks is an error") {
  Lockstep lockstep(2, 1, kQueue, Pick::current);
  (void)lockstep.signals(nullptr);
  lockstep.served(Decision::fresh);
  const JobReport first = report(0, 0, {.ready = 2, .produced = 2});
  (void)lockstep.signals(&first);
  lockstep.served(Decision::fresh);
  const JobReport second = report(1, 1, {.ready = 2, .produced = 3});  // the other rank says that it reused at step 0
  CHECK_THROWS_WITH_AS((void)lockstep.signals(&second), doctest::Contains("have not decided alike before step 1"),
                       Error);
}

TEST_CASE("whatever the ranks' pace, a batch that the signals promise is there on every rank") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(key64(std::uint64_t{99}, seed));
    const std::size_t ranks = 1 + random.below(4);
    const std::size_t lag = ranks == 1 ? 0 : 1 + random.below(5);
    const auto capacity = static_cast<std::int64_t>(lag + 1 + random.below(8));
    QueueOptions queue = kQueue;
    queue.capacity = capacity;
    Lockstep lockstep(static_cast<std::uint32_t>(ranks), lag, queue, Pick::least_used);
    std::vector<std::int64_t> ready(ranks, 1);
    std::vector<double> pace(ranks);
    for (double& one : pace) one = random.uniform(0.1, 1.5);
    std::deque<JobReport> reports;
    std::int64_t late = 0;
    for (std::uint64_t step = 0; step < 500; ++step) {
      const Progress least{.ready = std::ranges::min(ready), .produced = 1};
      reports.push_back(report(step, lockstep.fresh() * static_cast<std::int64_t>(ranks), least));
      const Signals known = lockstep.signals(reports.size() > lag ? &reports.front() : nullptr);
      if (reports.size() > lag) reports.pop_front();
      const Decision decision = known.depth > 0 ? Decision::fresh : Decision::reuse;
      lockstep.served(decision);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (decision == Decision::fresh && ready[rank]-- == 0) ++late;
        if (random.uniform() < pace[rank]) ready[rank] = std::min(capacity, ready[rank] + 1);
      }
    }
    CHECK(late == 0);
    CHECK(lockstep.fresh() > 20);
  }
}

}  // namespace
}  // namespace forebay
