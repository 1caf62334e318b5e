#pragma once

#include <algorithm>
#include <chrono>

#include "read_times.hpp"

namespace forebay {

// When a read counts as far slower than the others, and how many second reads there may be. No threads, no clocks.
//
//  - A read is slow when it takes three times the 95th percentile, and at least ten milliseconds: a store with constant
//    latency has no slow reads, nor has one whose every tenth read is slow.
//  - Every read earns a twentieth of a second read, so there are never more than 5 % of those.
class HedgeRule {
 public:
  static constexpr std::chrono::nanoseconds kUnknown = std::chrono::nanoseconds::max();
  static constexpr std::chrono::milliseconds kFloor{10};

  // A read took `time`. Any thread.
  void add(std::chrono::nanoseconds time) noexcept { times_.add(time); }

  // --- one thread ---
  // Takes in the reads that were added.
  void update() noexcept {
    earned_ = std::min(earned_ + kShare * static_cast<double>(times_.gather()), kMostEarned);
    if (times_.weight() < kFewestReads) return;
    slow_after_ = std::max<std::chrono::nanoseconds>(kFloor, kTimes * times_.quantile(1 - kShare));
  }
  // kUnknown until enough reads were seen.
  [[nodiscard]] std::chrono::nanoseconds slow_after() const noexcept { return slow_after_; }
  [[nodiscard]] bool may_hedge() const noexcept { return earned_ >= kPrice; }
  // REQUIRES: may_hedge().
  void hedge() noexcept { earned_ -= kPrice; }

 private:
  static constexpr double kShare = 0.05;
  static constexpr double kPrice = 1 + kShare;  // a second read is added like any other, and must earn nothing
  static constexpr double kMostEarned = 16;     // however long no read was slow
  static constexpr double kFewestReads = 64;    // that show a tail
  static constexpr int kTimes = 3;

  ReadTimes times_;
  double earned_ = 0;
  std::chrono::nanoseconds slow_after_ = kUnknown;
};

}  // namespace forebay
