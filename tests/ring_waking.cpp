// When the consumer of a ring wakes the issuer: ring invariant R8.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include <forebay/random.hpp>

#include "eventually.hpp"
#include "futex_watch.hpp"
#include "ring/slot_ring.hpp"

namespace forebay {
namespace {

using namespace std::chrono_literals;
using testing::FutexWatch;

bool never() { return false; }

// A ring whose issuer publishes what it claims at once. The consumer, and its wake-ups, are the calling thread's.
class Waking {
 public:
  Waking(std::uint32_t capacity, std::uint64_t turns)
      : ring(capacity, capacity + 1, turns), issuer_([this] { issue(); }), watched_(consumer_) {
    settle_down();
  }
  ~Waking() {
    stopped_ = true;
    ring.wake();
    issuer_.join();
  }
  Waking(const Waking&) = delete;
  Waking& operator=(const Waking&) = delete;

  void take() {
    REQUIRE(ring.state() == SlotRing::State::ready);
    ring.retire(ring.take());
    ring.settle();
  }
  // Wake-ups since the last call, once the issuer has claimed what it was woken for and sleeps again.
  int wakes() {
    const int wakes = consumer_.wakes.exchange(0);
    if (wakes > 0) settle_down();
    return wakes;
  }

  SlotRing ring;

 private:
  void issue() {
    const FutexWatch::OfThisThread watched(asleep_);
    SlotRing::Claim claim{};
    while (ring.claim(stopped_, claim)) ring.publish(claim.turn);
  }
  // It announces itself before it sleeps (W1), so from then on any notifier wakes it.
  void settle_down() {
    const bool sleeps = testing::eventually([this] { return asleep_.waits > slept_; });
    CHECK(sleeps);
    slept_ = asleep_.waits;
  }

  FutexWatch asleep_;
  FutexWatch consumer_;
  int slept_ = 0;
  std::atomic<bool> stopped_{false};
  std::thread issuer_;
  FutexWatch::OfThisThread watched_;
};

TEST_CASE("a full ring's issuer is woken once for a quarter of the capacity") {
  constexpr int kRounds = 50;
  Waking waking(16, UINT64_MAX);
  for (int round = 0; round < kRounds; ++round) {
    CHECK(waking.ring.depth() == 16);
    for (int i = 0; i < 3; ++i) waking.take();
    CHECK(waking.wakes() == 0);
    CHECK(waking.ring.depth() == 13);
    waking.take();
    CHECK(waking.wakes() == 1);
  }
}

TEST_CASE("a small ring's issuer is woken for each batch") {
  for (const std::uint32_t capacity : {1U, 2U, 3U, 7U}) {
    CAPTURE(capacity);
    Waking waking(capacity, UINT64_MAX);
    for (int i = 0; i < 20; ++i) {
      CHECK(waking.ring.depth() == capacity);
      waking.take();
      CHECK(waking.wakes() == 1);
    }
  }
}

TEST_CASE("a ring that is left alone becomes full again, also while its consumer reuses or waits") {
  Waking waking(16, UINT64_MAX);
  waking.take();
  for (int i = 0; i < 15; ++i) waking.ring.pass();
  CHECK(waking.wakes() == 0);
  waking.ring.pass();
  CHECK(waking.wakes() == 1);
  CHECK(waking.ring.depth() == 16);
  for (int i = 0; i < 40; ++i) waking.ring.pass();
  CHECK(waking.wakes() == 0);

  waking.take();
  CHECK(waking.wakes() == 0);
  CHECK(waking.ring.wait(SlotRing::Clock::now() + 20s, never) == SlotRing::State::ready);
  CHECK(waking.wakes() == 1);
  CHECK(waking.ring.depth() == 16);
}

TEST_CASE("the last batches of a plan come without being waited for") {
  Waking waking(16, 18);
  waking.take();
  waking.take();
  waking.take();
  CHECK(waking.wakes() == 0);
  for (int i = 0; i < 16; ++i) waking.ring.pass();
  CHECK(waking.wakes() == 1);  // for the two that are left
  CHECK(waking.ring.is_complete());
  while (waking.ring.state() == SlotRing::State::ready) waking.take();
  CHECK(waking.wakes() == 0);
  waking.ring.plan(19);
  waking.ring.settle();
  CHECK(waking.wakes() == 1);  // nothing is ready
  CHECK(waking.ring.depth() == 1);
}

TEST_CASE("an issuer is left alone for a few turns while the workers are busy, and then woken by them") {
  std::atomic<bool> is_busy{true};
  std::atomic<bool> stopped{false};
  std::atomic<std::uint64_t> claims{0};
  SlotRing ring(8, 9, UINT64_MAX, [&] { return is_busy.load(); });
  FutexWatch asleep;
  std::thread issuer([&] {
    const FutexWatch::OfThisThread watched(asleep);
    SlotRing::Claim claim{};
    while (ring.claim(stopped, claim)) ++claims;
  });
  const auto claims_are = [&](std::uint64_t wanted) { return testing::eventually([&] { return claims == wanted; }); };
  const auto take = [&] {
    REQUIRE(ring.state() == SlotRing::State::ready);
    ring.retire(ring.take());
    ring.settle();
  };
  CHECK(claims_are(8));
  CHECK(testing::eventually([&] { return asleep.waits > 0; }));
  FutexWatch notified;
  {
    const FutexWatch::OfThisThread watched(notified);
    // One can be claimed, none is ready.
    ring.publish(0);
    take();
    ring.publish(2);
    CHECK(ring.wait(SlotRing::Clock::now(), never) == SlotRing::State::starved);
    CHECK(claims == 8);
    CHECK(notified.wakes == 0);

    SUBCASE("who publishes when they are busy no more") {
      is_busy = false;
      ring.publish(3);
      CHECK(claims_are(9));
    }
    SUBCASE("the consumer, when it waits while they are busy no more") {
      is_busy = false;
      CHECK(ring.wait(SlotRing::Clock::now(), never) == SlotRing::State::starved);
      CHECK(claims_are(9));
    }
    SUBCASE("the consumer, when a quarter of the capacity can be claimed") {
      ring.publish(1);
      take();
      CHECK(claims_are(10));
    }
    SUBCASE("the consumer, after as many steps that take nothing as the capacity") {
      for (int step = 0; step < 7; ++step) ring.pass();
      CHECK(claims == 8);
      ring.pass();
      CHECK(claims_are(9));
    }
  }
  stopped = true;
  ring.wake();
  issuer.join();
}

TEST_CASE("whatever the consumer does, it wakes the issuer when R8 says so, and only then") {
  const std::uint64_t seed = 811;
  MESSAGE("seed " << seed);
  for (const std::uint32_t capacity : {1U, 3U, 4U, 9U, 16U}) {
    CAPTURE(capacity);
    const std::uint64_t patience = std::max(1U, capacity / 4);
    Random random(key64(seed, capacity));
    std::uint64_t planned = capacity + random.below(8);
    Waking waking(capacity, planned);
    std::uint64_t announced = std::min<std::uint64_t>(capacity, planned);
    std::uint64_t passed = 0;
    for (int i = 0; i < 300; ++i) {
      CAPTURE(i);
      const bool takes = waking.ring.depth() > 0 && random.below(3) > 0;
      const bool waits = !takes && random.below(4) == 0;
      if (takes) {
        if (random.below(8) > 0) waking.ring.plan(++planned);
        waking.take();
      } else if (waits) {
        (void)waking.ring.wait(SlotRing::Clock::now(), never);
      } else {
        waking.ring.pass();
      }
      const std::uint64_t limit = std::min(waking.ring.taken() + capacity, planned);
      const std::uint64_t turns = limit - announced;
      if (!takes && !waits && turns > 0) ++passed;
      const bool nothing_ready = announced == waking.ring.taken();
      const bool due = turns > 0 && (waits || turns >= patience || passed >= capacity || nothing_ready);
      CHECK(waking.wakes() == (due ? 1 : 0));
      if (due) {
        announced = limit;
        passed = 0;
      }
    }
  }
}

}  // namespace
}  // namespace forebay
