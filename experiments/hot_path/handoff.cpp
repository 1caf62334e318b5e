// One producer hands batches to one consumer and gets the slots back: the slot ring beside moodycamel's queue and a
// queue with a mutex and condition variables, a bounded ring after Vyukov, each carrying slot numbers only, all bounded
// to the same capacity.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "measure.hpp"
#include "queues.hpp"
#include "ring/slot_ring.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using forebay::bench::Figure;
using forebay::bench::MoodycamelQueue;
using forebay::bench::MutexQueue;
using forebay::bench::VyukovRing;

constexpr std::uint32_t kCapacity = 16;
constexpr std::uint32_t kSlots = kCapacity + 3;
constexpr std::uint64_t kBatches = 100'000;
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

}  // namespace

int main() {
  Figure ring;
  Figure vyukov_ring;
  Figure moodycamel_queue;
  Figure mutex_queue;
  for (int round = 0; round < kRounds; ++round) {
    ring.rounds.push_back(slot_ring());
    vyukov_ring.rounds.push_back(two_queues<VyukovRing>());
    moodycamel_queue.rounds.push_back(two_queues<MoodycamelQueue>());
    mutex_queue.rounds.push_back(two_queues<MutexQueue>());
  }
  std::printf("hand-off and return of a slot, capacity %u, ns per batch: median of %d alternating rounds [range]\n",
              kCapacity, kRounds);
  const auto print = [&](const char* name, const Figure& figure) {
    std::printf("%-22s %s   %.2f of the mutex queue\n", name, figure.text().c_str(),
                figure.median() / mutex_queue.median());
  };
  print("slot ring", ring);
  print("Vyukov ring (two)", vyukov_ring);
  print("moodycamel (two)", moodycamel_queue);
  print("mutex + condvar (two)", mutex_queue);
  return 0;
}
