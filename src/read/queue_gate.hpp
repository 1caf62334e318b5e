#pragma once

#include <concurrentqueue/lightweightsemaphore.h>
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace forebay::read {

// Counts the elements of one queue, or of several that share the gate, and lets threads wait for
// elements. A semaphore would wake a thread for each element. The gate wakes only as many threads
// as the elements keep busy, given how many a thread takes at once: readers of a fast store take
// many, and waking them all would cost more than the reads themselves. It can be closed.
//
// Invariants
//  G1  A thread counts itself in asleep_ before it checks elements_ and closed_ for the last time.
//      Whoever adds elements, or closes, does so before it checks asleep_. All of these are seq_cst,
//      so one of the two sees the other: no thread stays asleep while there are elements for which
//      no thread was woken.
//  G2  Whoever lowers asleep_ for a sleeping thread signals awake_ once, and that thread takes the
//      signal.
//  G3  A thread that takes elements and leaves some behind wakes another. So while there are
//      elements, a thread that has not looked for them since they were added is awake, or none
//      sleeps.
class QueueGate {
 public:
  // Call after the elements have been put into the queues. Any thread.
  void add(std::size_t elements) noexcept {
    elements_.fetch_add(static_cast<std::int64_t>(elements), std::memory_order_seq_cst);  // G1
    const std::size_t at_once = std::max<std::size_t>(1, at_once_.load(std::memory_order_relaxed));
    wake(static_cast<std::int64_t>((elements + at_once - 1) / at_once));
  }

  // Waits for elements, then takes as many as there are, at most `most`. 0 once the gate is closed, even if some are
  // left. The queues hold that many for this thread, though a try_dequeue may miss them at first. Any thread.
  [[nodiscard]] std::size_t take(std::size_t most) noexcept {
    // Only a hint for add().
    if (at_once_.load(std::memory_order_relaxed) != most) at_once_.store(most, std::memory_order_relaxed);
    for (int spins = 0; !closed_.load(std::memory_order_seq_cst); ++spins) {
      if (const std::size_t taken = try_take(static_cast<std::int64_t>(most))) return taken;
      if (spins >= kSpins) sleep();
    }
    return 0;
  }

  // Wakes every present and future take(). May be called again. Any thread.
  void close() noexcept {
    closed_.store(true, std::memory_order_seq_cst);  // G1
    wake(INT32_MAX);
  }
  // Elements that have not been taken, roughly.
  [[nodiscard]] std::size_t size_guess() const noexcept {
    return static_cast<std::size_t>(std::max<std::int64_t>(0, elements_.load(std::memory_order_relaxed)));
  }

 private:
  static constexpr int kSpins = 64;  // a waiting worker must soon leave its core to the decoders and the trainer

  [[nodiscard]] std::size_t try_take(std::int64_t most) noexcept {
    std::int64_t there = elements_.load(std::memory_order_relaxed);
    while (there > 0) {
      const std::int64_t left = std::max<std::int64_t>(0, there - most);
      // Acquires what add() released: the elements are in their queues.
      if (!elements_.compare_exchange_weak(there, left, std::memory_order_seq_cst, std::memory_order_relaxed)) continue;
      if (left > 0) wake(1);  // G3
      return static_cast<std::size_t>(there - left);
    }
    return 0;
  }

  void sleep() noexcept {
    asleep_.fetch_add(1, std::memory_order_seq_cst);
    const bool awake = elements_.load(std::memory_order_seq_cst) > 0 || closed_.load(std::memory_order_seq_cst);  // G1
    if (awake && take_asleep(1) == 1) return;
    // G2: even if another thread has lowered asleep_ meanwhile.
    while (!awake_.wait()) {
    }
  }

  // Lowers asleep_ by `most`, or by as many as it has; returns by how many.
  [[nodiscard]] std::int64_t take_asleep(std::int64_t most) noexcept {
    std::int64_t there = asleep_.load(std::memory_order_seq_cst);
    while (there > 0) {
      const std::int64_t taken = std::min(there, most);
      if (asleep_.compare_exchange_weak(there, there - taken, std::memory_order_seq_cst)) return taken;
    }
    return 0;
  }

  void wake(std::int64_t threads) noexcept {
    if (const std::int64_t taken = take_asleep(threads)) awake_.signal(taken);  // G2
  }

  alignas(64) std::atomic<std::int64_t> elements_{0};
  std::atomic<std::int64_t> asleep_{0};
  std::atomic<std::size_t> at_once_{1};
  std::atomic<bool> closed_{false};
  moodycamel::LightweightSemaphore awake_{0, 0};
};

}  // namespace forebay::read
