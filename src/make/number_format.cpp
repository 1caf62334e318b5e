#include "number_format.hpp"

#include <bit>
#include <cmath>

namespace forebay {
namespace {

constexpr int kDoubleFraction = 52;
constexpr int kDoubleBias = 1023;

// Shifts right and rounds what is lost to nearest, ties to even.
std::uint64_t shift_rounded(std::uint64_t value, int shift) noexcept {
  if (shift > 63) return 0;
  const std::uint64_t kept = value >> shift;
  const std::uint64_t lost = value & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return kept + ((lost > half || (lost == half && (kept & 1U) != 0)) ? 1 : 0);
}

// `value` in a binary format of 16 bits with the given number of exponent bits.
std::uint32_t encode16(double value, int exponent_bits) noexcept {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t infinity = ((1U << static_cast<unsigned>(exponent_bits)) - 1U) << fraction_bits;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 63) << 15U;
  if (std::isnan(value)) return sign | infinity | 1U << (fraction_bits - 1);
  if (std::isinf(value)) return sign | infinity;

  const auto stored_exponent = static_cast<int>(bits >> kDoubleFraction & 0x7ffU);
  // Doubles too small to be normal are far below half of the smallest 16-bit number.
  if (stored_exponent == 0) return sign;
  const std::uint64_t significand = (bits & ((std::uint64_t{1} << kDoubleFraction) - 1)) | std::uint64_t{1} << 52U;
  const int exponent = stored_exponent - kDoubleBias + bias;
  const int shift = kDoubleFraction - fraction_bits;
  // A carry out of the fraction moves into the exponent, which is what rounding up to the next binade means; the
  // significand's leading one counts as 1 in the exponent field.
  const std::uint64_t magnitude =
      exponent >= 1 ? (static_cast<std::uint64_t>(exponent - 1) << fraction_bits) + shift_rounded(significand, shift)
                    : shift_rounded(significand, shift + 1 - exponent);
  return sign | (magnitude >= infinity ? infinity : static_cast<std::uint32_t>(magnitude));
}

}  // namespace

std::uint32_t encode(double value, DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::float16: return encode16(value, 5);
    case DType::bfloat16: return encode16(value, 8);
    case DType::uint8: return static_cast<std::uint32_t>(std::nearbyint(std::fmin(std::fmax(value, 0.0), 255.0)));
  }
  return 0;
}

}  // namespace forebay
