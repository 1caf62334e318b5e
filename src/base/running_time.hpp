#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "wait.hpp"

namespace forebay {

// How long this process has run. Time in which it stood still does not count: stopped by SIGSTOP, frozen in its cgroup,
// on a suspended or paused machine. It is counted in ticks that a thread of the process makes. A tick that comes late
// counts for two periods at most, because the thread was not there to make the ones before it. So a limit measured here
// neither ends a run for a pause, nor passes while the machine is too busy to let the process run.
class RunningTime {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = std::chrono::nanoseconds;

  // Ticks are to come every `period`, the first one that long after `start`.
  RunningTime(Duration period, Clock::time_point start) noexcept : most_(2 * period), last_(start) {}
  RunningTime(const RunningTime&) = delete;
  RunningTime& operator=(const RunningTime&) = delete;

  // One thread.
  void tick(Clock::time_point now) noexcept;

  // Any thread; reads no clock and makes no system call. A mark for since().
  [[nodiscard]] Duration now() const noexcept { return Duration(elapsed_.load(std::memory_order_relaxed)); }
  // The least that the process has run since `mark`, three periods less than it has when ticks come in time: never too
  // much, so that no limit passes early. Any thread.
  [[nodiscard]] Duration since(Duration mark) const noexcept;

 private:
  Duration most_;
  Clock::time_point last_;
  // A number by itself: nothing else is read because of it, so its loads and stores need no order.
  std::atomic<Duration::rep> elapsed_{0};
};

// A running time and the thread that ticks it.
class RunningClock {
 public:
  // For limits of `limit_s` or more, which pass a tenth late at most. 0 = there are none, and no thread is started.
  // Throws Error when the thread cannot be started.
  explicit RunningClock(double limit_s);
  ~RunningClock() { stop(); }
  RunningClock(const RunningClock&) = delete;
  RunningClock& operator=(const RunningClock&) = delete;

  [[nodiscard]] const RunningTime& time() const noexcept { return time_; }
  // Time stands still from then on. Idempotent.
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
