// What next() costs the trainer's thread when a batch is ready: in a row, with telemetry on and off in alternating
// rounds; paced, as a trainer calls it, asleep or busy in between; and what serving the same batch again costs. Beside
// it, in the same rounds, what the least that a loader could do costs after the same pause: taking a number from a
// queue with a mutex that nobody else wants, and reading the clock twice.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <forebay/feeder.hpp>

#include "futex_watch.hpp"
#include "measure.hpp"
#include "memory_dataset.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using forebay::bench::Figure;
using forebay::bench::percentile;

constexpr int kRounds = 11;
constexpr int kSteps = 6000;
// Long enough for the producer to make the next batch and to park again, as beside a real trainer.
constexpr auto kStep = std::chrono::microseconds(100);

// Paced: no call finds the queue empty.
constexpr int kPacedRounds = 5;
constexpr int kPacedSteps = 1500;
constexpr auto kPacedStep = std::chrono::milliseconds(1);

struct Round {
  std::vector<double> fresh_ns;
  std::vector<double> reuse_ns;
};

forebay::Options options(const std::string& telemetry_dir) {
  forebay::Options made = forebay::testing::memory_options(4);
  made.workers.io = 1;
  made.workers.decode = 1;
  // Fresh only when a batch is ready: no call waits. Every third step is fresh, so that both kinds are measured.
  made.policy.name = "greedy";
  made.run.steps = kSteps;
  made.telemetry.dir = telemetry_dir;
  made.telemetry.interval_s = telemetry_dir.empty() ? 0 : 5;
  return made;
}

Round measure(const std::string& telemetry_dir) {
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4096);
  forebay::Feeder feeder(options(telemetry_dir), std::move(parts));
  Round round;
  for (;;) {
    const auto before = Clock::now();
    const auto batch = feeder.next();
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - before).count();
    if (!batch) return round;
    if (batch->step() < 100) continue;  // warm-up
    (batch->is_fresh() ? round.fresh_ns : round.reuse_ns).push_back(ns);
    // Two calls in a row without a pause find the queue empty now and then: those are the reuses.
    if (batch->step() % 3 == 0) std::this_thread::sleep_for(kStep);
  }
}

struct PacedRound {
  Round ns;
  double wakes_per_batch = 0;
};

// What lies between two calls: nothing, sleep (a trainer that waits for its device), or work of this core.
enum class Between { nothing, sleep, work };

void pass(Between between) {
  if (between == Between::sleep) std::this_thread::sleep_for(kPacedStep);
  if (between != Between::work) return;
  for (const auto end = Clock::now() + kPacedStep; Clock::now() < end;) {
  }
}

// `interval`: every so many steps are fresh.
PacedRound measure_paced(std::int64_t interval, std::int64_t steps, Between between) {
  forebay::Options made = options("");
  made.queue.capacity = 16;
  made.policy.name = "interval";
  made.policy.interval = interval;
  made.run.steps = steps;
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4096);
  forebay::Feeder feeder(made, std::move(parts));
  PacedRound round;
  forebay::testing::FutexWatch watch;
  const forebay::testing::FutexWatch::OfThisThread watched(watch);
  for (;;) {
    const auto before = Clock::now();
    const auto batch = feeder.next();
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - before).count();
    if (!batch) break;
    if (batch->step() == 100) watch.wakes = 0;
    if (batch->step() > 100) (batch->is_fresh() ? round.ns.fresh_ns : round.ns.reuse_ns).push_back(ns);
    pass(between);
  }
  if (!round.ns.fresh_ns.empty()) {
    round.wakes_per_batch = static_cast<double>(watch.wakes) / static_cast<double>(round.ns.fresh_ns.size());
  }
  return round;
}

// Nanoseconds of `work` after each pause.
template <typename Work>
std::vector<double> measure_bare(Between between, Work&& work) {
  std::vector<double> ns;
  for (int step = 0; step < kPacedSteps; ++step) {
    const auto before = Clock::now();
    work();
    ns.push_back(std::chrono::duration<double, std::nano>(Clock::now() - before).count());
    pass(between);
  }
  return ns;
}

struct Figures {
  Figure fresh_p50, fresh_p99, reuse_p50, reuse_p99;

  void add(const Round& round) {
    if (!round.fresh_ns.empty()) {
      fresh_p50.rounds.push_back(percentile(round.fresh_ns, 0.5));
      fresh_p99.rounds.push_back(percentile(round.fresh_ns, 0.99));
    }
    if (round.reuse_ns.empty()) return;
    reuse_p50.rounds.push_back(percentile(round.reuse_ns, 0.5));
    reuse_p99.rounds.push_back(percentile(round.reuse_ns, 0.99));
  }
  void print(const char* name) const {
    if (!fresh_p50.rounds.empty()) {
      std::printf("%-14s fresh p50 %s   p99 %s\n", name, fresh_p50.text().c_str(), fresh_p99.text().c_str());
    }
    if (reuse_p50.rounds.empty()) return;
    const char* const first = fresh_p50.rounds.empty() ? name : "";
    std::printf("%-14s reuse p50 %s   p99 %s\n", first, reuse_p50.text().c_str(), reuse_p99.text().c_str());
  }
};

// One pause between calls: next() and what it is compared with, in the same rounds.
struct Paced {
  const char* name;
  Between between;
  Figures next = {};
  Figure wakes = {};
  Figure queue = {};
  Figure clock = {};

  void measure() {
    PacedRound fresh = measure_paced(1, kPacedSteps, between);
    fresh.ns.reuse_ns = measure_paced(INT32_MAX, kPacedSteps, between).ns.reuse_ns;
    next.add(fresh.ns);
    wakes.rounds.push_back(fresh.wakes_per_batch);
    std::mutex mutex;
    std::deque<std::uint64_t> numbers(16);
    queue.rounds.push_back(percentile(measure_bare(between,
                                                   [&] {
                                                     const std::scoped_lock lock(mutex);
                                                     numbers.push_back(numbers.front());
                                                     numbers.pop_front();
                                                   }),
                                      0.5));
    clock.rounds.push_back(percentile(measure_bare(between, [] {}), 0.5));
  }
  void print() const {
    next.print(name);
    std::printf("%-14s mutex p50 %s\n", "", queue.text().c_str());
    std::printf("%-14s clock p50 %s\n", "", clock.text().c_str());
    std::printf("%-14s futex wakes of the trainer's thread per fresh batch: %s\n", "", wakes.text(2).c_str());
  }
};

void print_paced() {
  Paced asleep{.name = "asleep", .between = Between::sleep};
  Paced busy{.name = "busy", .between = Between::work};
  Figures hot;
  for (int round = 0; round < kPacedRounds; ++round) {
    asleep.measure();
    busy.measure();
    hot.add({.fresh_ns = {}, .reuse_ns = measure_paced(INT32_MAX, 50 * kPacedSteps, Between::nothing).ns.reuse_ns});
  }
  std::printf("the same 1 ms apart, capacity 16: median of %d rounds of %d steps [range]\n", kPacedRounds, kPacedSteps);
  asleep.print();
  busy.print();
  hot.print("in a row");
}

}  // namespace

int main() {
  const auto dir = std::filesystem::temp_directory_path() / ("forebay-next-latency-" + std::to_string(::getpid()));
  Figures off;
  Figures on;
  Figure added;
  for (int round = 0; round < kRounds; ++round) {
    const Round without = measure("");
    const Round with = measure(dir.string());
    off.add(without);
    on.add(with);
    added.rounds.push_back(percentile(with.fresh_ns, 0.5) - percentile(without.fresh_ns, 0.5));
  }
  std::filesystem::remove_all(dir);
  std::printf("next() with a batch ready, ns: median of %d alternating rounds of %d steps [range]\n", kRounds, kSteps);
  off.print("telemetry off");
  on.print("telemetry on");
  print_paced();
  std::printf("telemetry adds to the p50 of a fresh next(): %s ns (limit 1000)\n", added.text().c_str());
  return added.median() <= 1000 ? EXIT_SUCCESS : EXIT_FAILURE;
}
