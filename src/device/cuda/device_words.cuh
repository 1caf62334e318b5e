#pragma once

#include <cstdint>

#include "make/canvas_math.hpp"

namespace forebay::cuda {

constexpr std::int32_t kLanes = 32;  // of a warp
constexpr std::int32_t kWord = 4;    // bytes
constexpr std::int32_t kChunk = 16;  // bytes that a lane copies to shared memory at once

// Sums of weighted bytes have this many bits behind the point, whatever the precision of their axis: the mean is then a
// byte of the sum, which a permutation takes out along with others. Only an axis of more precision needs a shift.
constexpr std::int32_t kPoint = 16;
constexpr std::uint32_t kHalf = 1U << (kPoint - 1);

// A pair of coefficients for such sums. 1 itself does not fit 16 bits; it comes alone, and what is next below it rounds
// to the same bytes.
__device__ __forceinline__ std::uint32_t scaled_pair(std::uint32_t pair, std::int32_t precision) noexcept {
  if (precision >= kPoint) return pair;
  const auto scaled = [precision](std::uint32_t coefficient) {
    const std::uint32_t wide = coefficient << (kPoint - precision);
    return wide > 0xffffU ? 0xffffU : wide;
  };
  return scaled(pair & 0xffffU) | scaled(pair >> 16U) << 16U;
}

// What sums of an axis must still be shifted by.
__device__ __forceinline__ std::int32_t excess_of(const make::ResamplingAxis& axis) noexcept {
  return axis.precision > kPoint ? axis.precision - kPoint : 0;
}

// Of the channels of a pixel, or of the bytes of a word.
struct Sums {
  std::uint32_t at[4];

  __device__ __forceinline__ explicit Sums(std::int32_t excess) noexcept {
    for (auto& sum : at) sum = kHalf << excess;
  }
  __device__ __forceinline__ void shift(std::int32_t excess) noexcept {
    for (auto& sum : at) sum >>= excess;
  }
  // Two words, each by its half of the pair.
  __device__ __forceinline__ void add(std::uint32_t first, std::uint32_t second, std::uint32_t pair) noexcept {
    add_products(__byte_perm(first, second, 0x5140), __byte_perm(first, second, 0x7362), pair);
  }
  // Bytes in twos, those of the first two sums and those of the others.
  __device__ __forceinline__ void add_products(std::uint32_t lower, std::uint32_t upper, std::uint32_t pair) noexcept {
    at[0] = __dp2a_lo(pair, lower, at[0]);
    at[1] = __dp2a_hi(pair, lower, at[1]);
    at[2] = __dp2a_lo(pair, upper, at[2]);
    at[3] = __dp2a_hi(pair, upper, at[3]);
  }
  // One word. REQUIRES: weight < 2^16.
  __device__ __forceinline__ void add(std::uint32_t word, std::uint32_t weight) noexcept {
    const std::uint32_t odd = weight << 16U;
    at[0] = __dp2a_lo(weight, word, at[0]);
    at[1] = __dp2a_lo(odd, word, at[1]);
    at[2] = __dp2a_hi(weight, word, at[2]);
    at[3] = __dp2a_hi(odd, word, at[3]);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t pixel() const noexcept {
    return __byte_perm(__byte_perm(at[0], at[1], 0x0062), at[2], 0x0610);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t word() const noexcept {
    return __byte_perm(__byte_perm(at[0], at[1], 0x0062), __byte_perm(at[2], at[3], 0x0062), 0x5410);
  }
};

// Where the pixels of a row are read: canvases, which nobody writes meanwhile, or shared memory. Up to 9 bytes behind a
// pixel may be read, which the infos behind the last canvas leave room for.
struct CanvasMemory {
  static __device__ __forceinline__ std::uint32_t word(const std::uint32_t* at) noexcept { return __ldg(at); }
};
struct SharedMemory {
  static __device__ __forceinline__ std::uint32_t word(const std::uint32_t* at) noexcept { return *at; }
};

// Adds kTaps pixels that lie beside each other from byte `offset` of `row` on, 2 or 3, by the pair of the first two's
// weights and the third's. Aligned words are read, each once.
template <std::int32_t kTaps, class Memory>
__device__ __forceinline__ void add_neighbours(Sums& sums, const std::uint8_t* row, std::int32_t offset,
                                               std::uint32_t pair, std::uint32_t weight) noexcept {
  const auto* const words = reinterpret_cast<const std::uint32_t*>(row) + static_cast<std::uint32_t>(offset) / kWord;
  const std::uint32_t begin = 8 * static_cast<std::uint32_t>(offset);  // modulo 32
  const std::uint32_t second = Memory::word(words + 1);
  const std::uint32_t third = Memory::word(words + 2);
  // R0 G0 B0 R1, G1 B1 R2 G2
  const std::uint32_t front = __funnelshift_r(Memory::word(words), second, begin);
  const std::uint32_t middle = __funnelshift_r(second, third, begin);
  const std::uint32_t blue = __byte_perm(front, middle, 0x7752);  // and G2
  sums.add_products(__byte_perm(front, middle, 0x4130), blue, pair);
  if constexpr (kTaps == 3) {
    sums.at[0] = __dp2a_hi(weight, middle, sums.at[0]);
    sums.at[1] = __dp2a_hi(weight, blue, sums.at[1]);
    sums.at[2] = __dp2a_lo(weight, __funnelshift_r(third, third, begin), sums.at[2]);
  }
}

}  // namespace forebay::cuda
