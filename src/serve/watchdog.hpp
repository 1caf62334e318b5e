#pragma once

#include <chrono>
#include <optional>

#include "base/clock.hpp"

namespace forebay::serve {

// Measures for how long an expected batch has not come, in time for which the process ran. Used by the thread that
// calls next().
class Watchdog {
 public:
  // `time` must outlive this. `limit_s` 0 = no limit.
  Watchdog(const RunningTime& time, double limit_s) noexcept : time_(time), limit_s_(limit_s) {}

  // A batch has come, or none is expected.
  void feed() noexcept { starved_since_.reset(); }
  // A batch is expected, perhaps already for some time.
  void starve() noexcept {
    if (!starved_since_) starved_since_ = time_.now();
  }

  // For how long none has come; 0 if none is expected.
  [[nodiscard]] double starved_s() const noexcept {
    return starved_since_ ? std::chrono::duration<double>(time_.since(*starved_since_)).count() : 0;
  }
  // Whether no batch has come for as long as the limit.
  [[nodiscard]] bool barks() const noexcept { return limit_s_ > 0 && starved_since_ && starved_s() >= limit_s_; }

 private:
  const RunningTime& time_;
  double limit_s_;
  std::optional<RunningTime::Duration> starved_since_;
};

}  // namespace forebay::serve
