#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace forebay {

// Where threads wait for a condition that other threads make true without locks: a few spins, a few yields, then
// parked on a futex. The notifier pays one read-modify-write and one load; it enters the kernel only when somebody
// is parked.
//
// Invariants
//  W1  A waiter announces itself in waiters_ before it reads generation_ and re-checks its condition.
//  W2  A notifier makes the condition true before it increments generation_, and reads waiters_ after that.
//  W3  All four are sequentially consistent, so at least one side sees the other: either the notifier sees the
//      waiter and wakes it, or the waiter's read of generation_ follows the increment, acquires it, and its re-check
//      sees the condition. No wake-up is lost.
class WaitPoint {
 public:
  using Clock = std::chrono::steady_clock;

  WaitPoint() = default;
  WaitPoint(const WaitPoint&) = delete;
  WaitPoint& operator=(const WaitPoint&) = delete;

  // Any thread, and a signal handler. Call after making the condition true.
  void notify_all() noexcept {
    generation_.fetch_add(1, std::memory_order_seq_cst);            // W2
    if (waiters_.load(std::memory_order_seq_cst) != 0) wake_all();  // W3
  }

  // Returns true once `ready()` is true, false at `deadline`. `ready` is called several times and must not block.
  template <typename Ready>
  bool wait_until(Clock::time_point deadline, Ready&& ready) {
    for (int i = 0; i < kSpins; ++i) {
      if (ready()) return true;
      pause();
    }
    for (int i = 0; i < kYields; ++i) {
      if (ready()) return true;
      yield();
    }
    const Announced announced(*this);  // W1
    for (;;) {
      const std::uint32_t seen = generation_.load(std::memory_order_seq_cst);
      if (ready()) return true;
      if (!park(seen, deadline)) return ready();
    }
  }

  template <typename Ready>
  void wait(Ready&& ready) {
    wait_until(Clock::time_point::max(), ready);
  }

 private:
  // Short: on a crowded machine every spinning thread takes a core from a decoder.
  static constexpr int kSpins = 64;
  static constexpr int kYields = 4;

  struct Announced {
    explicit Announced(WaitPoint& point) noexcept : point_(point) {
      point_.waiters_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Announced() { point_.waiters_.fetch_sub(1, std::memory_order_seq_cst); }
    Announced(const Announced&) = delete;
    Announced& operator=(const Announced&) = delete;
    WaitPoint& point_;
  };

  static void pause() noexcept;
  static void yield() noexcept;
  void wake_all() noexcept;
  // Sleeps while generation_ == seen, at most until the deadline; false when the deadline has passed.
  bool park(std::uint32_t seen, Clock::time_point deadline) noexcept;

  alignas(64) std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::uint32_t> waiters_{0};
};

}  // namespace forebay
