#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace forebay::model {

inline constexpr std::size_t kMostThreads = 6;
inline constexpr std::size_t kMostLocations = 120;

// What a thread knows, and what a release hands on: the values that it may no longer miss, and how much of each thread
// happens before it.
struct Knowledge {
  // Per atomic location: the place in its modification order below which nothing can be read any more.
  std::array<std::uint32_t, kMostLocations> seen{};
  std::array<std::uint32_t, kMostThreads + 2> clock{};

  void join(const Knowledge& other) noexcept {
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = std::max(seen[i], other.seen[i]);
    for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other.clock[i]);
  }
};

}  // namespace forebay::model
