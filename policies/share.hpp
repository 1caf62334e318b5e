#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace forebay::policies {

// A share of the queue in whole batches: share * capacity rounded up, and at least 1. The tolerance keeps 0.1 * 30 at
// 3, although the product of doubles is slightly above it.
[[nodiscard]] inline std::uint32_t batches_of(double share, std::uint32_t capacity) noexcept {
  constexpr double kTolerance = 1e-9;
  constexpr double kMost = 1e9;
  return static_cast<std::uint32_t>(std::ceil(std::clamp(share * capacity - kTolerance, 0.5, kMost)));
}

}  // namespace forebay::policies
