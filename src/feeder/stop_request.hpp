#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "ring/slot_ring.hpp"

namespace forebay {

// A program's wish to stop. It outlives the run that a feeder replaces when it resumes, so a program may ask at any
// time of the feeder's life. All atomics are sequentially consistent: asking is rare, and is_made() is a plain load on
// the machines that matter.
class StopRequest {
 public:
  // Any thread; async-signal-safe. Breaks the wait of whoever listens.
  void make() noexcept {
    is_made_ = true;
    // Either the listener that ends sees this waker and waits for it, or this waker sees no listener.
    ++wakers_;
    if (ring::SlotRing* const ring = ring_.load()) ring->wake();
    --wakers_;
  }
  // Any thread.
  [[nodiscard]] bool is_made() const noexcept { return is_made_.load(); }

  // While it exists, make() wakes the ring's consumer; the one made last counts.
  class Listener {
   public:
    // Both must outlive this.
    Listener(StopRequest& request, ring::SlotRing& ring) noexcept : request_(request), ring_(&ring) {
      request_.ring_ = ring_;
    }
    ~Listener() {
      ring::SlotRing* mine = ring_;
      request_.ring_.compare_exchange_strong(mine, nullptr);  // unless another listens by now
      while (request_.wakers_ != 0) std::this_thread::yield();
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    StopRequest& request_;
    ring::SlotRing* ring_;
  };

 private:
  std::atomic<bool> is_made_{false};
  std::atomic<ring::SlotRing*> ring_{nullptr};
  std::atomic<std::uint32_t> wakers_{0};

  static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<ring::SlotRing*>::is_always_lock_free &&
                std::atomic<std::uint32_t>::is_always_lock_free);
};

}  // namespace forebay
