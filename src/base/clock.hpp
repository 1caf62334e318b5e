#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "wait.hpp"

namespace forebay {

// Nanoseconds of the steady clock, whose zero is arbitrary; for differences, and for times in atomics.
[[nodiscard]] inline std::int64_t steady_ns(std::chrono::steady_clock::time_point time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
[[nodiscard]] inline std::int64_t steady_ns() noexcept { return steady_ns(std::chrono::steady_clock::now()); }

[[nodiscard]] inline double seconds(std::chrono::nanoseconds time) noexcept {
  return std::chrono::duration<double>(time).count();
}

// The pause before polling again something that does not notify of its completion, such as an MPI operation. The first
// 64 pauses (chosen) only yield to other threads, because completion is mostly microseconds away. Later ones sleep for
// 50 us (chosen): spinning would take a core from this rank's decoders, and on a crowded node from the rank that is
// behind. Any thread.
void pause_before_look(int look);

// The time for which this process has run, except while it was stopped by SIGSTOP, frozen in its cgroup, or on a
// suspended or paused machine. A thread of the process counts ticks. A late tick counts for at most two periods,
// because the thread was not running when the earlier ones were due. So a limit measured with this clock expires
// neither because of a pause nor because the machine is too busy to run the process.
class RunningTime {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = std::chrono::nanoseconds;

  // Ticks are due every `period`, the first one `period` after `start`.
  RunningTime(Duration period, Clock::time_point start) noexcept : most_(2 * period), last_(start) {}
  RunningTime(const RunningTime&) = delete;
  RunningTime& operator=(const RunningTime&) = delete;

  // To be called by one thread only.
  void tick(Clock::time_point now) noexcept;

  // A mark for since(). Reads no clock and makes no system call. Any thread.
  [[nodiscard]] Duration now() const noexcept { return Duration(elapsed_.load(std::memory_order_relaxed)); }
  // A lower bound on the time that the process has run since `mark`, at most three periods short if ticks are punctual,
  // so that no limit expires early. Any thread.
  [[nodiscard]] Duration since(Duration mark) const noexcept;

 private:
  Duration most_;
  Clock::time_point last_;
  // Relaxed: no other data depend on this number.
  std::atomic<Duration::rep> elapsed_{0};
};

// A running time and the thread that ticks it.
class RunningClock {
 public:
  // For limits of `limit_s` or more, which expire at most a tenth late. 0 = no limits, so no thread is started. Throws
  // Error if the thread cannot be started.
  explicit RunningClock(double limit_s);
  ~RunningClock() { stop(); }
  RunningClock(const RunningClock&) = delete;
  RunningClock& operator=(const RunningClock&) = delete;

  [[nodiscard]] const RunningTime& time() const noexcept { return time_; }
  // Stops the clock. Idempotent.
  void stop();

 private:
  void run();

  WaitPoint wake_;
  RunningTime::Duration period_;
  RunningTime time_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace forebay
