#pragma once

#include <cstdint>

#include <forebay/order.hpp>

namespace forebay::order {

// A bijection of [0, size) that keeps neighbours near each other. The places are cut into runs of
// `run` adjacent places, from a starting point drawn for each epoch. The runs are shuffled, and the
// places of each window of window / run runs are shuffled among themselves. A pure function of its
// arguments and the epoch, in O(1) time and memory, by two Permutations. Immutable; any thread may
// call.
class WindowShuffle {
 public:
  // REQUIRES: size, window and run are at least 1.
  WindowShuffle(std::uint64_t size, std::uint64_t window, std::uint64_t run, std::uint64_t seed) noexcept;

  // The place of the sample at a position of an epoch. REQUIRES: position < size.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t epoch, std::uint64_t position) const noexcept;
  // The positions of the window that contains a position; the same in every epoch.
  [[nodiscard]] PositionRange window(std::uint64_t position) const noexcept;

 private:
  [[nodiscard]] std::uint64_t window_of(std::uint64_t position) const noexcept;
  [[nodiscard]] PositionRange window_at(std::uint64_t number) const noexcept;

  std::uint64_t size_;
  std::uint64_t seed_;
  std::uint64_t run_;
  std::uint64_t runs_;     // the last may be short; it is in the last window
  std::uint64_t windows_;  // at most runs_
};

}  // namespace forebay::order
