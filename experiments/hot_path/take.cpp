// What a trainer pays to get its next batch when one is ready: next(), the bare slot ring, and the same with two queues
// of slot numbers instead, where taking a batch is to give the last slot back and to take the next. A producer refills
// at once, so that giving a slot back finds it parked, as beside a trainer whose step is longer than a batch takes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <forebay/feeder.hpp>

#include "measure.hpp"
#include "memory_dataset.hpp"
#include "queues.hpp"
#include "ring/slot_ring.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using forebay::bench::Figure;
using forebay::bench::percentile;

constexpr int kRounds = 9;
constexpr int kWarm = 100;
constexpr int kSteps = 3000 + kWarm;
constexpr std::uint32_t kCapacity = 16;
constexpr auto kStep = std::chrono::microseconds(100);

// Calls `take` once per step and returns what each call took, in ns, without the first ones.
template <typename Take>
std::vector<double> trainer(Take&& take) {
  std::vector<double> ns;
  ns.reserve(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    const auto before = Clock::now();
    take();
    const double taken = std::chrono::duration<double, std::nano>(Clock::now() - before).count();
    if (step >= kWarm) ns.push_back(taken);
    std::this_thread::sleep_for(kStep);
  }
  return ns;
}

std::vector<double> by_next() {
  forebay::Options options = forebay::testing::memory_options(4);
  options.workers.io = 1;
  options.workers.decode = 1;
  options.queue.capacity = kCapacity;
  options.policy.name = "block";
  options.run.steps = kSteps;
  options.telemetry.interval_s = 0;
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4096);
  forebay::Feeder feeder(options, std::move(parts));
  return trainer([&] { (void)feeder.next(); });
}

std::vector<double> by_slot_ring() {
  forebay::SlotRing ring(kCapacity, kCapacity + 3, kSteps);
  std::atomic<bool> stopped{false};
  std::thread producer([&] {
    forebay::SlotRing::Claim claim{};
    while (ring.claim(stopped, claim)) ring.publish(claim.turn);
  });
  const auto never = [] { return false; };
  auto ns = trainer([&] {
    if (ring.wait(Clock::now() + std::chrono::seconds(60), never) != forebay::SlotRing::State::ready) return;
    ring.retire(ring.take());
    ring.settle();
  });
  stopped = true;
  ring.wake();
  producer.join();
  return ns;
}

template <typename Queue>
std::vector<double> by_queues() {
  Queue ready;
  Queue free;
  for (std::uint32_t slot = 0; slot < kCapacity; ++slot) free.push(slot);
  std::thread producer([&] {
    for (int batch = 0; batch < kSteps + static_cast<int>(kCapacity); ++batch) ready.push(free.pop());
  });
  std::uint32_t current = ready.pop();
  auto ns = trainer([&] {
    free.push(current);
    current = ready.pop();
  });
  producer.join();
  return ns;
}

struct Way {
  const char* name;
  std::vector<double> (*run)();
  Figure p50{}, p99{};
};

}  // namespace

int main() {
  std::vector<Way> ways{{"next()", by_next},
                        {"slot ring", by_slot_ring},
                        {"Vyukov ring (two)", by_queues<forebay::bench::VyukovRing>},
                        {"moodycamel (two)", by_queues<forebay::bench::MoodycamelQueue>},
                        {"mutex + condvar (two)", by_queues<forebay::bench::MutexQueue>}};
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      Way& way = ways[round % 2 == 0 ? i : ways.size() - 1 - i];
      const std::vector<double> ns = way.run();
      way.p50.rounds.push_back(percentile(ns, 0.5));
      way.p99.rounds.push_back(percentile(ns, 0.99));
    }
  }
  std::printf("taking a batch that is ready, ns: median of %d alternating rounds of %d steps [range]\n", kRounds,
              kSteps - kWarm);
  const Way& mutex_queue = ways.back();
  for (const Way& way : ways) {
    std::printf("%-22s p50 %s  %.2f   p99 %s  %.2f of the mutex queue\n", way.name, way.p50.text().c_str(),
                way.p50.median() / mutex_queue.p50.median(), way.p99.text().c_str(),
                way.p99.median() / mutex_queue.p99.median());
  }
  return 0;
}
