#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include <concurrentqueue/blockingconcurrentqueue.h>

#include "base/wait.hpp"

// Queues of slot numbers to compare the slot ring with. push() never waits: no more slots exist than a queue has
// places.
namespace forebay::bench {

class MoodycamelQueue {
 public:
  void push(std::uint32_t slot) { queue_.enqueue(slot); }
  std::uint32_t pop() {
    std::uint32_t slot = 0;
    queue_.wait_dequeue(slot);
    return slot;
  }

 private:
  moodycamel::BlockingConcurrentQueue<std::uint32_t> queue_;
};

class MutexQueue {
 public:
  void push(std::uint32_t slot) {
    {
      const std::scoped_lock lock(mutex_);
      slots_.push_back(slot);
    }
    filled_.notify_one();
  }
  std::uint32_t pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !slots_.empty(); });
    const std::uint32_t slot = slots_.front();
    slots_.pop_front();
    return slot;
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::uint32_t> slots_;
};

// The mutex queue with the slot ring's waiting in place of a condition variable: what differs from the Vyukov ring is
// the lock.
class PatientMutexQueue {
 public:
  void push(std::uint32_t slot) {
    {
      const std::scoped_lock lock(mutex_);
      slots_.push_back(slot);
      size_.store(slots_.size(), std::memory_order_relaxed);
    }
    filled_.notify_all();
  }
  std::uint32_t pop() {
    std::uint32_t slot = 0;
    filled_.wait([&] { return try_pop(slot); });
    return slot;
  }

 private:
  bool try_pop(std::uint32_t& slot) {
    if (size_.load(std::memory_order_relaxed) == 0) return false;  // who spins must not take the lock all the time
    const std::scoped_lock lock(mutex_);
    if (slots_.empty()) return false;
    slot = slots_.front();
    slots_.pop_front();
    size_.store(slots_.size(), std::memory_order_relaxed);
    return true;
  }

  std::mutex mutex_;
  std::deque<std::uint32_t> slots_;
  std::atomic<std::size_t> size_{0};
  WaitPoint filled_;
};

// A bounded queue for any number of producers and consumers after D. Vyukov's ("Bounded MPMC queue", 1024cores.net):
// each place has a sequence number that says whose turn it is. Place p holds round r's element while its number is
// r * kPlaces + p + 1, and waits for it while it is one less. Waiting is the slot ring's own, so that only the queues
// differ.
class VyukovRing {
 public:
  VyukovRing() {
    for (std::size_t i = 0; i < kPlaces; ++i) places_[i].sequence.store(i, std::memory_order_relaxed);
  }

  // REQUIRES: fewer than kPlaces elements are in it.
  void push(std::uint32_t slot) {
    while (!try_push(slot)) continue;
    filled_.notify_all();
  }
  std::uint32_t pop() {
    std::uint32_t slot = 0;
    filled_.wait([&] { return try_pop(slot); });
    return slot;
  }

 private:
  static constexpr std::size_t kPlaces = 32;  // a power of two

  struct alignas(64) Place {
    std::atomic<std::size_t> sequence{0};
    std::uint32_t slot = 0;
  };

  bool try_push(std::uint32_t slot) {
    std::size_t turn = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Place& place = places_[turn % kPlaces];
      const std::size_t sequence = place.sequence.load(std::memory_order_acquire);
      if (sequence < turn) return false;  // still holds the element of the round before
      if (sequence > turn) {
        turn = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(turn, turn + 1, std::memory_order_relaxed)) {
        place.slot = slot;
        place.sequence.store(turn + 1, std::memory_order_release);
        return true;
      }
    }
  }

  bool try_pop(std::uint32_t& slot) {
    std::size_t turn = head_.load(std::memory_order_relaxed);
    for (;;) {
      Place& place = places_[turn % kPlaces];
      const std::size_t sequence = place.sequence.load(std::memory_order_acquire);
      if (sequence < turn + 1) return false;  // empty
      if (sequence > turn + 1) {
        turn = head_.load(std::memory_order_relaxed);
      } else if (head_.compare_exchange_weak(turn, turn + 1, std::memory_order_relaxed)) {
        slot = place.slot;
        place.sequence.store(turn + kPlaces, std::memory_order_release);
        return true;
      }
    }
  }

  std::array<Place, kPlaces> places_;
  alignas(64) std::atomic<std::size_t> tail_{0};
  alignas(64) std::atomic<std::size_t> head_{0};
  WaitPoint filled_;
};

}  // namespace forebay::bench
