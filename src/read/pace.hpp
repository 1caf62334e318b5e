#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace forebay {

// How many pieces of work a thread takes from a queue at once: as many as take about 100 microseconds, so that taking
// and handing over, including a wake-up, costs little compared with the work; and one if a piece takes longer, so that
// other threads find some too. Used by one thread.
class Pace {
 public:
  static constexpr std::size_t kMost = 16;

  // Pieces to take now; one while nothing is known.
  [[nodiscard]] std::size_t at_once() const noexcept {
    constexpr std::int64_t kGoalNs = 100'000;
    return static_cast<std::size_t>(std::clamp<std::int64_t>(kGoalNs / (mean_ns_ + 1), 1, kMost));
  }
  // A piece took `ns`.
  void add(std::int64_t ns) noexcept { mean_ns_ += (ns - mean_ns_) / kMemory; }

 private:
  static constexpr std::int64_t kMemory = 8;  // the number of pieces that the mean covers

  std::int64_t mean_ns_ = 1'000'000;
};

}  // namespace forebay
