#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace forebay {

// How long reads take: a histogram whose steps are at most a fifth of a value wide. Recent reads weigh most, so that it
// follows a store that changes.
class ReadTimes {
 public:
  // A read took `time`. Any thread.
  void add(std::chrono::nanoseconds time) noexcept;

  // --- one thread ---
  // Takes in the reads that were added since the last call; returns their number.
  std::uint64_t gather() noexcept;
  // The number of reads that the figures rest on; older ones count for less than one.
  [[nodiscard]] double weight() const noexcept { return weight_; }
  // The time that this share of the reads did not exceed, rounded up to the end of a step; 0 if there are none.
  [[nodiscard]] std::chrono::nanoseconds quantile(double share) const noexcept;

 private:
  // Four steps to each doubling, from a microsecond to minutes.
  static constexpr std::size_t kSteps = 112;
  // Beyond this weight all reads are scaled down to half of it.
  static constexpr double kMemory = 2048;

  [[nodiscard]] static std::size_t step_of(std::uint64_t ns) noexcept;
  [[nodiscard]] static std::uint64_t end_of(std::size_t step) noexcept;

  std::array<std::atomic<std::uint64_t>, kSteps> added_{};
  std::array<std::uint64_t, kSteps> gathered_{};
  std::array<double, kSteps> weights_{};
  double weight_ = 0;
};

}  // namespace forebay
