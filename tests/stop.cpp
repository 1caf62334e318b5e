// Stops that come from signals. The library leaves signals alone; a program's own handler may ask for a stop.

#include <doctest/doctest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>

#include "eventually.hpp"
#include "futex_watch.hpp"
#include "memory_dataset.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using testing::Gate;
using testing::memory_options;
using testing::MemoryDataset;

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
  // The test's own framework has handlers while a test runs.
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

// A signal handler can reach nothing but static storage.
std::atomic<Feeder*> asked{nullptr};
std::atomic<int> handled{0};

extern "C" void ask_to_stop(int /*signal*/) {
  if (Feeder* feeder = asked.load()) feeder->request_stop();
  ++handled;
}

// The program's handler, which asks `feeder` to stop, for the scope.
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
    // The previous action is not meant for a signal that is still on its way.
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
      CHECK(testing::eventually([&] { return reads == 3; }));  // it hangs in the store
      CHECK(::kill(::getpid(), SIGUSR1) == 0);
    });
    // The broken wait still serves a resident batch: the stop takes effect at the next step.
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
                             feeder.load()->request_stop();  // a reader of the new one
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
