// One producer hands batches to one consumer and gets the slots back: the slot ring beside moodycamel's queue and a
// queue with a mutex and condition variables, the same with the ring's way of waiting, a bounded ring after Vyukov,
// each carrying slot numbers only, all bounded to the same capacity.
//   bench_handoff [LOAD]     LOAD: busy processes beside it for each core, default 0
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "busy_cores.hpp"
#include "measure.hpp"
#include "queues.hpp"
#include "ring/slot_ring.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using forebay::bench::BusyCores;
using forebay::bench::Figure;
using forebay::bench::MoodycamelQueue;
using forebay::bench::MutexQueue;
using forebay::bench::PatientMutexQueue;
using forebay::bench::VyukovRing;

constexpr std::uint32_t kCapacity = 16;
constexpr std::uint32_t kSlots = kCapacity + 3;
// Rounds of half a second and more beside busy processes: the scheduler's slices even out.
constexpr std::uint64_t kBatches = 400'000;
constexpr int kRounds = 9;

double timed(const std::function<void()>& producer, const std::function<void()>& consumer) {
  const auto start = Clock::now();
  std::thread other(producer);
  consumer();
  other.join();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / static_cast<double>(kBatches);
}

double slot_ring() {
  forebay::SlotRing ring(kCapacity, kSlots, kBatches);
  std::atomic<bool> stopped{false};
  return timed(
      [&] {
        forebay::SlotRing::Claim claim{};
        while (ring.claim(stopped, claim)) ring.publish(claim.turn);
      },
      [&] {
        const auto never = [] { return false; };
        while (ring.wait(Clock::now() + std::chrono::seconds(60), never) == forebay::SlotRing::State::ready) {
          ring.retire(ring.take());
          ring.settle();
        }
        stopped = true;
        ring.wake();
      });
}

// A ready queue and a free queue, whatever they are made of.
template <typename Queue>
double two_queues() {
  Queue ready;
  Queue free;
  for (std::uint32_t slot = 0; slot < kCapacity; ++slot) free.push(slot);
  return timed(
      [&] {
        for (std::uint64_t batch = 0; batch < kBatches; ++batch) ready.push(free.pop());
      },
      [&] {
        for (std::uint64_t batch = 0; batch < kBatches; ++batch) free.push(ready.pop());
      });
}

struct Way {
  const char* name;
  double (*run)();
  Figure ns{};
  Figure ratio{};  // to the mutex queue of the same round
};

}  // namespace

int main(int argc, char** argv) {
  const int load = argc > 1 ? std::atoi(argv[1]) : 0;
  if (argc > 2 || load < 0 || load > 64) {
    std::fprintf(stderr, "usage: %s [LOAD]   busy processes for each core, 0 to 64\n", argv[0]);
    return EXIT_FAILURE;
  }
  const BusyCores busy(load);
  std::vector<Way> ways{{"slot ring", slot_ring},
                        {"Vyukov ring (two)", two_queues<VyukovRing>},
                        {"mutex, ring's waits (two)", two_queues<PatientMutexQueue>},
                        {"moodycamel (two)", two_queues<MoodycamelQueue>},
                        {"mutex + condvar (two)", two_queues<MutexQueue>}};
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      Way& way = ways[round % 2 == 0 ? i : ways.size() - 1 - i];
      way.ns.rounds.push_back(way.run());
    }
    for (Way& way : ways) way.ratio.rounds.push_back(way.ns.rounds.back() / ways.back().ns.rounds.back());
  }
  std::printf("hand-off and return of a slot, capacity %u, %zu busy processes beside it, ns per batch:\n", kCapacity,
              busy.processes());
  std::printf("median of %d alternating rounds [range], and as a part of the mutex queue's in the same round\n",
              kRounds);
  for (const Way& way : ways) {
    std::printf("%-26s %s   %s\n", way.name, way.ns.text().c_str(), way.ratio.text(2).c_str());
  }
  return EXIT_SUCCESS;
}
