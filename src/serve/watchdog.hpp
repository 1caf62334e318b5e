#pragma once

#include <chrono>
#include <optional>

#include "base/clock.hpp"

namespace forebay::serve {

// Tells for how long no batch has come that was expected, in time that the process ran. Used by the thread that calls
// next().
class Watchdog {
 public:
  // `time` must outlive this. 0 = it never barks.
  Watchdog(const RunningTime& time, double limit_s) noexcept : time_(time), limit_s_(limit_s) {}

  // A batch has come, or none is expected.
  void feed() noexcept { starved_since_.reset(); }
  // A batch is expected, perhaps since long.
  void starve() noexcept {
    if (!starved_since_) starved_since_ = time_.now();
  }

  // For how long none has come; 0 while none is expected.
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

}  // namespace forebay::serve
