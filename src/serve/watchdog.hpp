#pragma once

#include <chrono>
#include <optional>

#include "base/clock.hpp"

namespace forebay {

// Tells how long the queue has been empty, in time that the process ran. Used by the thread that calls next().
class Watchdog {
 public:
  // `time` must outlive this. 0 = it never barks.
  Watchdog(const RunningTime& time, double limit_s) noexcept : time_(time), limit_s_(limit_s) {}

  // The queue has a batch.
  void feed() noexcept { starved_since_.reset(); }
  // The queue is empty, perhaps since long.
  void starve() noexcept {
    if (!starved_since_) starved_since_ = time_.now();
  }

  // Since when there was no batch; 0 while there is one.
  [[nodiscard]] double starved_s() const noexcept {
    return starved_since_ ? std::chrono::duration<double>(time_.since(*starved_since_)).count() : 0;
  }
  // No batch came for as long as is allowed.
  [[nodiscard]] bool barks() const noexcept { return limit_s_ > 0 && starved_since_ && starved_s() >= limit_s_; }

 private:
  const RunningTime& time_;
  double limit_s_;
  std::optional<RunningTime::Duration> starved_since_;
};

}  // namespace forebay
