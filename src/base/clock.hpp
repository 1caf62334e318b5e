#pragma once

#include <chrono>
#include <cstdint>

namespace forebay {

// Nanoseconds of the steady clock, whose zero is arbitrary: for differences, and for atomics that hold a time.
[[nodiscard]] inline std::int64_t steady_ns(std::chrono::steady_clock::time_point time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
[[nodiscard]] inline std::int64_t steady_ns() noexcept { return steady_ns(std::chrono::steady_clock::now()); }

[[nodiscard]] inline double seconds(std::chrono::nanoseconds time) noexcept {
  return std::chrono::duration<double>(time).count();
}

}  // namespace forebay
