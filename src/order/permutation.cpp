#include <algorithm>
#include <cmath>
#include <forebay/order.hpp>
#include <forebay/random.hpp>

namespace forebay {
namespace {

// The smallest number whose square is at least `size`.
std::uint64_t root_of(std::uint64_t size) noexcept {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32U;
  // The estimate may be off by one either way; the result is exact.
  auto root = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::sqrt(static_cast<double>(size))), 1, kMost);
  while (root < kMost && root * root < size) ++root;
  while (root > 1 && (root - 1) * (root - 1) >= size) --root;
  return root;
}

// Uniform in [0, n) out of 64 uniform bits.
std::uint64_t below(std::uint64_t bits, std::uint64_t n) noexcept {
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * n) >> 64U);
}

// REQUIRES: a < n and b < n.
std::uint64_t add_modulo(std::uint64_t a, std::uint64_t b, std::uint64_t n) noexcept {
  const std::uint64_t sum = a + b;
  return sum >= n ? sum - n : sum;
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) noexcept
    : size_(size), rows_(root_of(size)), columns_(size > 0 ? (size - 1) / rows_ + 1 : 1) {
  for (int round = 0; round < kRounds; ++round) keys_[round] = key64(seed, epoch, round);
}

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
  std::uint64_t element = position;
  do {
    std::uint64_t row = element / columns_;
    std::uint64_t column = element % columns_;
    for (int round = 0; round < kRounds; round += 2) {
      row = add_modulo(row, below(mix64(column ^ keys_[round]), rows_), rows_);
      column = add_modulo(column, below(mix64(row ^ keys_[round + 1]), columns_), columns_);
    }
    element = row * columns_ + column;
    // Cycle walking, for less than one element in sqrt(size). It ends because the cycle leads back to `position`.
  } while (element >= size_);
  return element;
}

}  // namespace forebay
