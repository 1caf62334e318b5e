#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace forebay {

// A point at which threads wait for a condition that other threads make true without locks. They spin for a few
// microseconds, which pays off if the other thread is running on another core; yield a few times, which pays off if it
// is waiting for this core; and then park on a futex. Each point learns what has paid off lately and skips the rest: on
// busy cores spinning is useless, and a yield gives every other thread a time slice, whereas a parked thread is
// scheduled first when woken. A notification costs one read-modify-write; it enters the kernel only if a thread may be
// parked, and once for all that are.
//
// Invariants
//  W1  A waiter sets kParked in word_, and remembers the resulting word, before it re-checks its condition. It falls
//      asleep only while word_ is unchanged.
//  W2  A notifier makes the condition true before it adds a generation to word_. If it finds kParked set, it clears it
//      and then wakes all sleepers. So while a thread sleeps, kParked is set or a notifier is about to wake all.
//  W3  All of these are read-modify-writes of one word, so they have a total order, and each acquires what the earlier
//      ones released. If the notifier's comes first, the waiter's re-check sees the condition. If the waiter's comes
//      first, word_ is no longer what it remembers: it does not fall asleep, or it already sleeps and is woken (W2).
//      No wake-up is lost.
class WaitPoint {
 public:
  using Clock = std::chrono::steady_clock;

  WaitPoint() = default;
  WaitPoint(const WaitPoint&) = delete;
  WaitPoint& operator=(const WaitPoint&) = delete;

  // Any thread, and a signal handler. Call after making the condition true.
  void notify_all() noexcept {
    if ((word_.fetch_add(kGeneration, std::memory_order_acq_rel) & kParked) != 0) wake_all();  // W2, W3
  }

  // Returns true once `ready()` is true, false at `deadline`. `ready` is called several times and must not block.
  template <typename Ready>
  bool wait_until(Clock::time_point deadline, Ready&& ready) {
    if (ready() || (may_spin() && spin(ready)) || yield_to(ready)) return true;
    for (;;) {
      const std::uint32_t seen = word_.fetch_or(kParked, std::memory_order_acq_rel) | kParked;  // W1, W3
      if (ready()) return true;
      if (!park(seen, deadline)) return ready();
    }
  }

  template <typename Ready>
  void wait(Ready&& ready) {
    wait_until(Clock::time_point::max(), ready);
  }

 private:
  static constexpr std::uint32_t kParked = 1;
  static constexpr std::uint32_t kGeneration = 2;

  // About the cost of parking to both sides, so that a wait costs at most twice the cheaper choice.
  static constexpr std::chrono::microseconds kLongestSpin{5};
  static constexpr int kChecks = 16;  // between two readings of the clock
  // After kPatience useless spins in a row, the next kRest waits do not spin. Then one tries again.
  static constexpr std::int32_t kPatience = 4;
  static constexpr std::int32_t kRest = 64;
  static constexpr int kYields = 4;
  // A thread that is about to hand something over needs less time than this; another process takes a whole time slice.
  static constexpr std::chrono::microseconds kSlowYield{50};
  static constexpr int kYieldRest = 128;

  // Above 0: how many more spins may fail. At 0: the next one decides. Below: how many waits will not spin. Relaxed: it
  // is a hint, and a lost update only delays its effect.
  bool may_spin() noexcept {
    const std::int32_t now = patience_.load(std::memory_order_relaxed);
    if (now >= 0) return true;
    patience_.store(now + 1, std::memory_order_relaxed);
    return false;
  }
  void spun(bool in_time) noexcept {
    const std::int32_t before = patience_.load(std::memory_order_relaxed);
    const std::int32_t in_vain = before > 0 ? before - 1 : -kRest;
    const std::int32_t now = in_time ? kPatience : in_vain;
    if (now != before) patience_.store(now, std::memory_order_relaxed);
  }

  template <typename Ready>
  bool spin(Ready&& ready) {
    const auto check = [&] {
      for (int i = 0; i < kChecks; ++i) {
        pause();
        if (ready()) return true;
      }
      return false;
    };
    // Most waits that end in spinning end before the clock is read.
    if (check()) {
      spun(true);
      return true;
    }
    const Clock::time_point begin = Clock::now();
    for (;;) {
      const bool is_ready = check();
      // If the condition became true while another process had the core, spinning did not pay.
      const bool in_time = Clock::now() - begin < kLongestSpin;
      if (!is_ready && in_time) continue;
      spun(is_ready && in_time);
      return is_ready;
    }
  }

  // After a slow yield there is no other for kYieldRest times as long: however busy the cores are, yielding takes no
  // more than that share of the time.
  template <typename Ready>
  bool yield_to(Ready&& ready) {
    Clock::time_point before = Clock::now();
    if (before.time_since_epoch().count() < no_yield_before_.load(std::memory_order_relaxed)) return false;
    for (int i = 0; i < kYields; ++i) {
      yield();
      const Clock::time_point after = Clock::now();
      const Clock::duration taken = after - before;
      if (taken > kSlowYield) {
        no_yield_before_.store((after + kYieldRest * taken).time_since_epoch().count(), std::memory_order_relaxed);
        return ready();
      }
      if (ready()) return true;
      before = after;
    }
    return false;
  }

  static void pause() noexcept;
  static void yield() noexcept;
  void wake_all() noexcept;
  // Sleeps while word_ == seen, at most until the deadline; false when the deadline has passed.
  bool park(std::uint32_t seen, Clock::time_point deadline) noexcept;

  alignas(64) std::atomic<std::uint32_t> word_{0};  // kParked, and the number of notifications
  // For waiters only: notifiers do not touch this cache line.
  alignas(64) std::atomic<std::int32_t> patience_{kPatience};
  std::atomic<Clock::rep> no_yield_before_{0};  // relaxed: a hint as well
};

// Thrown by every wait of a reader once its pool is stopped. Not derived from std::exception, so that no handler on the
// way mistakes it for an error of the sample.
struct Stopped {};

// Tells reader threads to stop; they sleep here, too. Any thread may call any member.
class StopSignal {
 public:
  void raise() noexcept {
    raised_.store(true, std::memory_order_seq_cst);
    point_.notify_all();
  }

  [[nodiscard]] bool is_raised() const noexcept { return raised_.load(std::memory_order_seq_cst); }

  // Sleeps until the deadline (max() = no deadline). Throws Stopped as soon as the signal is raised.
  void sleep_until(WaitPoint::Clock::time_point deadline) {
    if (point_.wait_until(deadline, [this] { return is_raised(); })) throw Stopped();
  }

 private:
  WaitPoint point_;
  std::atomic<bool> raised_{false};
};

}  // namespace forebay
