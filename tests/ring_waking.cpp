// When the consumer of a ring wakes the issuer (ring invariant R8), and stops requested by signals.
#include <unistd.h>
#include <csignal>
#include <forebay/feeder.hpp>

#include "futex_watch.hpp"
#include "memory_dataset.hpp"
#include "ring/slot_ring.hpp"
#include "test.hpp"

using namespace forebay::ring;

namespace forebay {
namespace {

using namespace std::chrono_literals;
using namespace testing;

bool never() { return false; }

// A ring whose issuer publishes what it claims at once. The calling thread is the consumer, whose
// wake-ups are counted.
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
  // The number of wake-ups since the last call, after the issuer has claimed what it was woken for
  // and sleeps again.
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
  // The issuer announces itself before it sleeps (W1), so from then on any notifier wakes it.
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
  CHECK(waking.wakes() == 1);  // for the last two batches
  CHECK(waking.ring.is_complete());
  while (waking.ring.state() == SlotRing::State::ready) waking.take();
  CHECK(waking.wakes() == 0);
  waking.ring.plan(19);
  waking.ring.settle();
  CHECK(waking.wakes() == 1);  // because nothing is ready
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
    // One turn can be claimed, and no batch is ready.
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

// Stops requested by signals. The library installs no handlers; a program's own handler may request
// a stop.

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGALRM, SIGPIPE, SIGCHLD, SIGSEGV};

struct sigaction action_of(int signal) {
  struct sigaction action {};
  REQUIRE(::sigaction(signal, nullptr, &action) == 0);
  return action;
}

bool is_blocked(int signal) {
  sigset_t blocked;
  REQUIRE(::pthread_sigmask(SIG_SETMASK, nullptr, &blocked) == 0);
  return ::sigismember(&blocked, signal) == 1;
}

TEST_CASE("a feeder installs no signal handler and blocks no signal of its program") {
  // doctest has signal handlers while a test runs.
  std::vector<struct sigaction> before;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    struct sigaction by_default {};
    by_default.sa_handler = SIG_DFL;
    REQUIRE(::sigaction(signal, &by_default, nullptr) == 0);
  }
  for (const int signal : kSignals) before.push_back(action_of(signal));
  const auto check_untouched = [&] {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      CAPTURE(kSignals[i]);
      const struct sigaction now = action_of(kSignals[i]);
      const bool is_same = now.sa_handler == before[i].sa_handler;
      CHECK(is_same);
      CHECK(now.sa_flags == before[i].sa_flags);
      CHECK_FALSE(is_blocked(kSignals[i]));
    }
  };
  const testing::TemporaryDirectory dir;
  Options options = memory_options(4);
  options.telemetry.dir = (dir / "run").string();
  Feeder feeder(options, {.dataset = std::make_shared<MemoryDataset>(40)});
  check_untouched();
  REQUIRE(feeder.next());
  check_untouched();
  feeder.save(dir / "feed.state");
  feeder.request_stop();
  CHECK_FALSE(feeder.next().has_value());
  check_untouched();
  feeder.close();
  check_untouched();
}

// A signal handler can reach only static storage.
std::atomic<Feeder*> asked{nullptr};
std::atomic<int> handled{0};

extern "C" void ask_to_stop(int /*signal*/) {
  if (Feeder* feeder = asked.load()) feeder->request_stop();
  ++handled;
}

// Installs a handler that asks `feeder` to stop, for the scope.
class StopFromHandler {
 public:
  StopFromHandler(int signal, Feeder& feeder) : signal_(signal) {
    asked = &feeder;
    handled = 0;
    struct sigaction action {};
    action.sa_handler = ask_to_stop;
    action.sa_flags = SA_RESTART;
    REQUIRE(::sigaction(signal_, &action, &previous_) == 0);
  }
  ~StopFromHandler() {
    // The previous action must not receive a signal that is still pending.
    CHECK(testing::eventually([this] {
      sigset_t pending;
      return ::sigpending(&pending) == 0 && ::sigismember(&pending, signal_) == 0;
    }));
    ::sigaction(signal_, &previous_, nullptr);
    asked = nullptr;
  }
  StopFromHandler(const StopFromHandler&) = delete;
  StopFromHandler& operator=(const StopFromHandler&) = delete;

 private:
  int signal_;
  struct sigaction previous_ {};
};

TEST_CASE("a handler in the trainer's thread ends the run at the next step") {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    CAPTURE(signal);
    Options options = memory_options(2);
    options.run.epochs = 1'000'000;
    Feeder feeder(options, {.dataset = std::make_shared<MemoryDataset>(40)});
    const StopFromHandler handler(signal, feeder);
    REQUIRE(feeder.next());
    REQUIRE(::raise(signal) == 0);
    CHECK(handled == 1);
    CHECK_FALSE(feeder.next().has_value());
    CHECK(feeder.was_stopped());
  }
}

TEST_CASE("a signal to the process ends a wait inside next(), whichever thread it interrupts") {
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    Options options = memory_options(2);
    options.workers.io = 1;
    Gate gate;
    gate.open(2);  // one batch: "block" then waits for the store
    std::atomic<int> reads{0};
    Feeder feeder(options, {.dataset = std::make_shared<MemoryDataset>(100, [&](std::uint64_t) {
                              ++reads;
                              gate.pass();
                            })});
    const StopFromHandler handler(SIGUSR1, feeder);
    REQUIRE(feeder.next());
    std::thread other([&] {
      CHECK(testing::eventually([&] { return reads == 3; }));  // a reader hangs in the store
      CHECK(::kill(::getpid(), SIGUSR1) == 0);
    });
    // The broken wait still serves a resident batch, because the stop takes effect at the next
    // step.
    const auto last = feeder.next();
    CHECK((!last || !last->is_fresh()));
    CHECK_FALSE(feeder.next().has_value());
    CHECK(feeder.was_stopped());
    other.join();
    CHECK(testing::eventually([] { return handled == 1; }));
    gate.open();
  }
}

TEST_CASE("a wait that request_stop() has broken does not sleep again") {
  Gate gate;
  gate.open(2);  // one batch: "block" then waits for the store
  Options options = memory_options(2);
  options.workers.io = 1;
  Feeder feeder(options, {.dataset = std::make_shared<MemoryDataset>(100, [&](std::uint64_t) { gate.pass(); })});
  REQUIRE(feeder.next());
  testing::FutexWatch watch([&] { feeder.request_stop(); });
  std::optional<Lease> last;
  {
    const testing::FutexWatch::OfThisThread watched(watch);
    last = feeder.next();
  }
  CHECK((!last || !last->is_fresh()));
  CHECK(watch.waits == 1);
  CHECK_FALSE(feeder.next().has_value());
  CHECK(feeder.was_stopped());
  gate.open();
}

TEST_CASE("a stop requested while another feeder takes this one's place reaches the other at once") {
  const auto state = [] {
    Feeder saved(memory_options(2), {.dataset = std::make_shared<MemoryDataset>(40)});
    CHECK(saved.next());
    return saved.state();
  }();
  Gate gate;
  std::atomic<bool> is_restoring{false};
  std::atomic<int> reads{0};
  std::atomic<Feeder*> feeder{nullptr};
  Options options = memory_options(2);
  options.policy.watchdog_s = 20;
  Feeder resumed(options, {.dataset = std::make_shared<MemoryDataset>(40, [&](std::uint64_t) {
                             ++reads;
                             if (!is_restoring) return;
                             feeder.load()->request_stop();  // called on a reader of the new feeder
                             gate.pass();
                           })});
  feeder = &resumed;
  CHECK(testing::eventually([&] { return reads == 2 * options.queue.capacity; }));  // its ring is full
  is_restoring = true;
  resumed.restore_state(state);
  gate.open();
  CHECK_FALSE(resumed.next().has_value());
  CHECK(resumed.was_stopped());
}

TEST_CASE("a stop that was asked for before a restore holds after it") {
  const Parts parts{.dataset = std::make_shared<MemoryDataset>(40)};
  Feeder saved(memory_options(2), parts);
  for (int step = 0; step < 13; ++step) REQUIRE(saved.next());
  const std::string state = saved.state();
  Feeder feeder(memory_options(2), parts);
  feeder.request_stop();
  feeder.restore_state(state);
  CHECK_FALSE(feeder.next().has_value());
  CHECK(feeder.was_stopped());
  CHECK(feeder.steps() == 13);
  CHECK(feeder.state() == state);
}

TEST_CASE("hundreds of signals while batches are served: one stop, and a state that resumes there") {
  Options options = memory_options(2);
  options.run.epochs = 1'000'000;
  Feeder feeder(options, {.dataset = std::make_shared<MemoryDataset>(40)});
  const StopFromHandler handler(SIGTERM, feeder);
  std::atomic<bool> served{false};
  std::thread other([&] {
    CHECK(testing::eventually([&] { return served.load(); }));
    for (int i = 0; i < 300; ++i) CHECK(::kill(::getpid(), SIGTERM) == 0);
  });
  std::uint64_t steps = 0;
  for (const auto end = testing::limit(); feeder.next(); ++steps) {
    if (steps == 20) served = true;
    REQUIRE(WaitPoint::Clock::now() < end);
  }
  other.join();
  CHECK(feeder.was_stopped());
  CHECK(feeder.steps() == steps);
  const std::string state = feeder.state();
  Feeder resumed(options, {.dataset = std::make_shared<MemoryDataset>(40)});
  resumed.restore_state(state);
  const auto batch = resumed.next();
  REQUIRE(batch);
  CHECK(batch->step() == steps);
}

}  // namespace
}  // namespace forebay
