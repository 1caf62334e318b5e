#include <doctest/doctest.h>

#include <array>
#include <atomic>

#include "base/thread.hpp"
#include "base/wait.hpp"
#include "eventually.hpp"

namespace {

using namespace forebay;
using Activity = WorkerStatus::Activity;
using testing::eventually;
using testing::limit;

// A pool whose threads work, a piece after the other, for as long as there is work.
struct Works {
  static constexpr unsigned kMost = 6;

  explicit Works(unsigned wanted)
      : pool("pool",
             {.body =
                  [this](unsigned thread, WorkerStatus& status) {
                    while (pool.may_work(thread) && work) {
                      status.set(Activity::decoding, thread);
                      ++pieces.at(thread);
                      status.set(Activity::idle);
                    }
                  },
              .end = [this] { work = false; }},
             wanted, kMost) {}

  [[nodiscard]] unsigned parked() const {
    unsigned count = 0;
    for (const WorkerStatus& status : pool.statuses()) count += status.activity == Activity::parked ? 1 : 0;
    return count;
  }
  [[nodiscard]] bool works(unsigned thread) {
    const int before = pieces.at(thread);
    return eventually([&] { return pieces.at(thread) > before + 10; });
  }

  std::atomic<bool> work{true};
  std::array<std::atomic<int>, kMost> pieces{};
  WorkerPool pool;
};

}  // namespace

TEST_CASE("as many threads work as are wanted, and the others are parked") {
  Works works(2);
  CHECK(works.pool.wanted() == 2);
  CHECK(works.pool.most() == 6);
  CHECK(works.works(0));
  CHECK(works.works(1));
  CHECK(works.pool.statuses()[2].activity == Activity::stopped);  // not started before it is wanted

  works.pool.want(5);
  for (unsigned thread = 0; thread < 5; ++thread) CHECK(works.works(thread));
  works.pool.want(1);
  REQUIRE(eventually([&] { return works.parked() == 4; }));
  const int before = works.pieces[3];
  CHECK(works.works(0));
  CHECK(works.pieces[3] == before);
  works.pool.want(3);
  CHECK(works.works(2));
  CHECK(eventually([&] { return works.parked() == 2; }));  // thread 1 need not have woken up yet
  works.pool.want(0);
  CHECK(works.pool.wanted() == 1);
  works.pool.want(100);
  CHECK(works.pool.wanted() == 6);
  for (unsigned thread = 0; thread < 6; ++thread) CHECK(works.works(thread));
}

TEST_CASE("a pool stops whatever its threads do") {
  Works works(6);
  CHECK(works.works(5));
  SUBCASE("at work") {}
  SUBCASE("parked") {
    works.pool.want(1);
    REQUIRE(eventually([&] { return works.parked() == 5; }));
  }
  works.pool.stop();
  works.pool.stop();
  for (const WorkerStatus& status : works.pool.statuses()) CHECK(status.activity == Activity::stopped);
}

TEST_CASE("times add up to those of the threads' lives, by activity") {
  using std::chrono::nanoseconds;
  const auto begin = std::chrono::steady_clock::now();
  nanoseconds lived{0};
  {
    Works works(3);
    CHECK(works.works(2));
    works.pool.want(1);
    REQUIRE(eventually([&] { return works.parked() == 2; }));
    CHECK(works.works(0));
    CHECK(works.pool.cpu_time() > nanoseconds(0));
    works.pool.stop();
    CHECK(works.pool.cpu_time() == nanoseconds(0));
    const ActivityTimes times = times_spent(works.pool.statuses());
    const auto spent = [&](Activity activity) { return times[static_cast<std::size_t>(activity)]; };
    CHECK(spent(Activity::decoding) > nanoseconds(0));
    CHECK(spent(Activity::parked) > nanoseconds(0));
    CHECK(spent(Activity::reading) == nanoseconds(0));
    lived = spent(Activity::decoding) + spent(Activity::parked) + spent(Activity::idle);
  }
  CHECK(lived > nanoseconds(0));
  CHECK(lived <= 3 * (std::chrono::steady_clock::now() - begin));
}
