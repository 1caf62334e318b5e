#pragma once

#include <cstdint>

namespace forebay {

__extension__ using Wide = unsigned __int128;  // 64 x 64 bit products

// The finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Combines several numbers into one key; their order matters.
template <typename... Rest>
[[nodiscard]] constexpr std::uint64_t key64(std::uint64_t first, Rest... rest) noexcept {
  std::uint64_t key = mix64(first + 0x9e3779b97f4a7c15ULL);
  ((key = mix64(key ^ (static_cast<std::uint64_t>(rest) + 0x9e3779b97f4a7c15ULL))), ...);
  return key;
}

// SplitMix64 as a generator: cheap to create per sample, the same numbers on every machine. Not thread-safe.
class Random {
 public:
  explicit constexpr Random(std::uint64_t key) noexcept : state_(key) {}

  [[nodiscard]] constexpr std::uint64_t bits() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  // Uniform in [0, 1), 53 bits.
  [[nodiscard]] constexpr double uniform() noexcept { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  [[nodiscard]] constexpr double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  // Uniform in [0, n) by 128-bit multiplication (Lemire 2019, without the rejection step: bias below n / 2^64).
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t n) noexcept {
    return static_cast<std::uint64_t>((static_cast<Wide>(bits()) * n) >> 64);
  }

 private:
  std::uint64_t state_;
};

}  // namespace forebay
