// What next() costs the trainer's thread when a batch is ready: in a row, with telemetry on and off in alternating
// rounds; paced, as a trainer calls it; and what serving the same batch again costs.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
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

// `interval`: every so many steps are fresh.
PacedRound measure_paced(std::int64_t interval, std::int64_t steps, std::chrono::microseconds step) {
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
    if (step.count() > 0) std::this_thread::sleep_for(step);
  }
  if (!round.ns.fresh_ns.empty()) {
    round.wakes_per_batch = static_cast<double>(watch.wakes) / static_cast<double>(round.ns.fresh_ns.size());
  }
  return round;
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

void print_paced() {
  Figures paced;
  Figures hot;
  Figure wakes;
  for (int round = 0; round < kPacedRounds; ++round) {
    PacedRound fresh = measure_paced(1, kPacedSteps, kPacedStep);
    fresh.ns.reuse_ns = measure_paced(INT32_MAX, kPacedSteps, kPacedStep).ns.reuse_ns;
    paced.add(fresh.ns);
    wakes.rounds.push_back(fresh.wakes_per_batch);
    hot.add({.fresh_ns = {}, .reuse_ns = measure_paced(INT32_MAX, 50 * kPacedSteps, {}).ns.reuse_ns});
  }
  std::printf("the same 1 ms apart, capacity 16: median of %d rounds of %d steps [range]\n", kPacedRounds, kPacedSteps);
  paced.print("1 ms apart");
  std::printf("futex wakes of the trainer's thread per fresh batch: %s\n", wakes.text().c_str());
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
