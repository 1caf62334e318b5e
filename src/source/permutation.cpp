#include <algorithm>
#include <bit>
#include <forebay/order.hpp>
#include <forebay/random.hpp>

namespace forebay {
namespace {

// The domain of the network has an even number of bits, at least two, and is less than four times the size.
int half_of_bits(std::uint64_t size) noexcept {
  const int bits = size > 1 ? static_cast<int>(std::bit_width(size - 1)) : 0;
  return std::max(1, (bits + 1) / 2);
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) noexcept
    : size_(size), half_bits_(half_of_bits(size)) {
  for (int round = 0; round < kRounds; ++round) keys_[round] = key64(seed, epoch, round);
}

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t element = position;
  do {
    std::uint64_t left = element >> half_bits_;
    std::uint64_t right = element & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t mixed = left ^ (mix64(right ^ key) & mask);
      left = right;
      right = mixed;
    }
    element = (left << half_bits_) | right;
  } while (element >= size_);  // cycle walking: ends, because the cycle leads back to `position`
  return element;
}

}  // namespace forebay
