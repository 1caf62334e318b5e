#include <sys/syscall.h>
#include <unistd.h>
#include <csignal>

#include "base/wait.hpp"
#include "test.hpp"

// Waiting and waking with real threads. tests/model explores the same code systematically.
namespace {

using forebay::WaitPoint;
using namespace std::chrono_literals;

// For the whole program; sched_yield() below uses them.
std::atomic<int> yields{0};                // NOLINT: it has no object to keep them in
std::atomic<bool> yields_are_slow{false};  // NOLINT

WaitPoint::Clock::time_point limit() { return WaitPoint::Clock::now() + 60s; }

}  // namespace

// Replaces the C library's function. A slow yield behaves as if other processes used their whole
// time slices.
extern "C" int sched_yield() noexcept {
  ++yields;
  if (yields_are_slow) ::usleep(2000);
  return static_cast<int>(::syscall(SYS_sched_yield));
}

TEST_CASE("a condition that holds ends the wait at once, even past the deadline") {
  WaitPoint point;
  CHECK(point.wait_until(WaitPoint::Clock::now() - 1s, [] { return true; }));
  point.wait([] { return true; });
}

TEST_CASE("the deadline ends a wait whose condition never holds") {
  WaitPoint point;
  CHECK_FALSE(point.wait_until(WaitPoint::Clock::now() - 1s, [] { return false; }));
  const auto deadline = WaitPoint::Clock::now() + 5ms;
  CHECK_FALSE(point.wait_until(deadline, [] { return false; }));
  CHECK(WaitPoint::Clock::now() >= deadline);
}

TEST_CASE("a condition that becomes true without a notification is still seen at the deadline") {
  WaitPoint point;
  const auto deadline = WaitPoint::Clock::now() + 5ms;
  CHECK(point.wait_until(deadline, [&] { return WaitPoint::Clock::now() >= deadline; }));
}

// Forces the interleaving of W1: the condition becomes true and is notified just after the waiter
// found it false, at each of its checks in turn, the last of which come just before it parks.
TEST_CASE("a notification between any check and what follows it is not lost") {
  for (int moment = 0; moment < 80; ++moment) {
    CAPTURE(moment);
    WaitPoint point;
    // In half of the cases spinning has been in vain before, so that the first checks are already
    // those around parking.
    for (int i = 0; i < 5 * (moment % 2); ++i) {
      CHECK_FALSE(point.wait_until(WaitPoint::Clock::now(), [] { return false; }));
    }
    bool open = false;
    int checks = 0;
    const auto deadline = limit();
    CHECK(point.wait_until(deadline, [&] {
      if (open) return true;
      open = checks++ == moment;
      point.notify_all();  // at every check: parking after any other one would block for ever
      return false;
    }));
    REQUIRE(WaitPoint::Clock::now() < deadline);
  }
}

TEST_CASE("a point where yields take long does without them") {
  constexpr int kWaits = 200;
  WaitPoint point;
  const auto wait_in_vain = [&] { CHECK_FALSE(point.wait_until(WaitPoint::Clock::now(), [] { return false; })); };
  yields = 0;
  const auto begin = WaitPoint::Clock::now();
  yields_are_slow = true;
  for (int i = 0; i < kWaits; ++i) wait_in_vain();
  yields_are_slow = false;
  // One yield of 2 ms, and another after a hundred times as long, however slow the machine is.
  CHECK(yields >= 1);
  CHECK(yields <= 1 + (WaitPoint::Clock::now() - begin) / 200ms);
}

TEST_CASE("a point where spinning is in vain does without it, and tries again") {
  WaitPoint point;
  const auto checks_of_a_wait = [&] {
    int checks = 0;
    CHECK_FALSE(point.wait_until(WaitPoint::Clock::now(), [&] {
      ++checks;
      return false;
    }));
    return checks;
  };
  CHECK(checks_of_a_wait() > 16);
  for (int i = 0; i < 4; ++i) checks_of_a_wait();
  for (int i = 0; i < 60; ++i) CHECK(checks_of_a_wait() < 10);
  bool spun = false;
  for (int i = 0; i < 10; ++i) spun = checks_of_a_wait() > 16 || spun;
  CHECK(spun);
}

TEST_CASE("two threads hand a number back and forth without losing a wake-up") {
  // Each side takes about as long as the other one spins and yields, so that many waits end just as
  // they park. It busy-waits: if other processes compute, a processor that is given up comes back
  // only after their time slices.
  const auto dawdle = [](forebay::Random& random) {
    const auto until = WaitPoint::Clock::now() + random.below(12) * 500ns;
    while (WaitPoint::Clock::now() < until) {
    }
  };
  const std::uint64_t seed = 17;
  CAPTURE(seed);
  constexpr int kRounds = forebay::testing::kSanitized ? 5'000 : 30'000;
  WaitPoint ping;
  WaitPoint pong;
  std::atomic<int> sent{0};
  std::atomic<int> answered{0};
  std::atomic<bool> lost{false};
  std::jthread other([&] {
    forebay::Random random(seed);
    for (int round = 1; round <= kRounds && !lost; ++round) {
      if (!ping.wait_until(limit(), [&] { return sent.load(std::memory_order_acquire) >= round; })) lost = true;
      dawdle(random);
      answered.store(round, std::memory_order_release);
      pong.notify_all();
    }
  });
  forebay::Random random(seed + 1);
  for (int round = 1; round <= kRounds && !lost; ++round) {
    dawdle(random);
    sent.store(round, std::memory_order_release);
    ping.notify_all();
    if (!pong.wait_until(limit(), [&] { return answered.load(std::memory_order_acquire) >= round; })) lost = true;
  }
  CHECK_FALSE(lost);
  CHECK(answered == kRounds);
}

TEST_CASE("one notification wakes every waiter") {
  constexpr int kRounds = 2'000;
  constexpr int kWaiters = 6;
  WaitPoint go;
  WaitPoint done;
  std::atomic<int> round{0};
  std::atomic<int> arrived{0};
  std::atomic<bool> lost{false};
  int plain = 0;  // deliberately unsynchronised: the wait point and the condition must publish it
  {
    std::vector<std::jthread> waiters;
    waiters.reserve(kWaiters);
    for (int i = 0; i < kWaiters; ++i) {
      waiters.emplace_back([&] {
        for (int mine = 1; mine <= kRounds; ++mine) {
          if (!go.wait_until(limit(), [&] { return round.load(std::memory_order_acquire) >= mine; })) lost = true;
          if (lost) return;
          if (plain != mine) lost = true;
          arrived.fetch_add(1, std::memory_order_acq_rel);
          done.notify_all();
        }
      });
    }
    for (int now = 1; now <= kRounds && !lost; ++now) {
      plain = now;
      round.store(now, std::memory_order_release);
      go.notify_all();
      const auto all_arrived = [&] { return lost || arrived.load(std::memory_order_acquire) == now * kWaiters; };
      if (!done.wait_until(limit(), all_arrived)) lost = true;
    }
    if (lost) {
      round.store(kRounds, std::memory_order_release);
      go.notify_all();
    }
  }
  CHECK_FALSE(lost);
  CHECK(arrived == kRounds * kWaiters);
}

TEST_CASE("waits with and without deadline share a point") {
  WaitPoint point;
  std::atomic<bool> open{false};
  std::atomic<int> through{0};
  std::vector<std::jthread> waiters;
  waiters.emplace_back([&] {
    point.wait([&] { return open.load(); });
    ++through;
  });
  waiters.emplace_back([&] {
    if (point.wait_until(limit(), [&] { return open.load(); })) ++through;
  });
  waiters.emplace_back([&] {
    while (!point.wait_until(WaitPoint::Clock::now() + 1ms, [&] { return open.load(); })) {
    }
    ++through;
  });
  open = true;
  point.notify_all();
  waiters.clear();
  CHECK(through == 3);
}

namespace {

WaitPoint signal_point;              // NOLINT: a signal handler can reach nothing but globals
std::atomic<bool> signalled{false};  // NOLINT

void on_signal(int /*number*/) {
  signalled = true;
  signal_point.notify_all();
}

}  // namespace

TEST_CASE("a signal handler may notify a parked thread") {
  const auto previous = std::signal(SIGUSR1, on_signal);
  std::atomic<bool> woken{false};
  std::jthread waiter([&] { woken = signal_point.wait_until(limit(), [] { return signalled.load(); }); });
  errno = EDOM;
  REQUIRE(std::raise(SIGUSR1) == 0);
  CHECK(errno == EDOM);
  waiter.join();
  CHECK(woken);
  std::signal(SIGUSR1, previous);
}
