#pragma once

#include <array>
#include <cstdint>

#include "make/canvas_math.hpp"

namespace forebay::cuda {

constexpr std::int32_t kLanes = 32;  // of a warp
constexpr std::int32_t kWord = 4;    // bytes

// As PlainWords, in the device's own instructions.
struct DeviceWords {
  static __device__ __forceinline__ void add_products(std::uint32_t first, std::uint32_t second, std::uint32_t pair,
                                                      std::array<std::uint32_t, 4>& sums) noexcept {
    // Bytes 0 of both and bytes 1 of both; bytes 2 and bytes 3.
    const std::uint32_t lower = __byte_perm(first, second, 0x5140);
    const std::uint32_t upper = __byte_perm(first, second, 0x7362);
    sums[0] = __dp2a_lo(pair, lower, sums[0]);
    sums[1] = __dp2a_hi(pair, lower, sums[1]);
    sums[2] = __dp2a_lo(pair, upper, sums[2]);
    sums[3] = __dp2a_hi(pair, upper, sums[3]);
  }

 protected:
  // Three aligned words hold the 6 bytes of two pixels wherever they begin.
  static __device__ __forceinline__ TwoPixels two_of(std::uint32_t first, std::uint32_t second, std::uint32_t third,
                                                     std::int32_t offset) noexcept {
    const std::uint32_t begin = 8 * static_cast<std::uint32_t>(offset);  // modulo 32
    const std::uint32_t front = __funnelshift_r(first, second, begin);
    const std::uint32_t back = __funnelshift_r(second, third, begin);
    return {front, __byte_perm(front, back, 0x6543)};
  }
  static __device__ __forceinline__ const std::uint32_t* words_at(const std::uint8_t* row,
                                                                  std::int32_t offset) noexcept {
    return reinterpret_cast<const std::uint32_t*>(row) + static_cast<std::uint32_t>(offset) / kWord;
  }
};

// Reads rows of canvases, which nobody writes meanwhile. The third word may begin up to 8 bytes behind the pixels,
// which the infos behind the last canvas leave room for.
struct CanvasWords : DeviceWords {
  static __device__ __forceinline__ TwoPixels two_pixels(const std::uint8_t* row, std::int32_t offset) noexcept {
    const std::uint32_t* const words = words_at(row, offset);
    return two_of(__ldg(words), __ldg(words + 1), __ldg(words + 2), offset);
  }
};

// Reads rows in shared memory.
struct RowWords : DeviceWords {
  static __device__ __forceinline__ TwoPixels two_pixels(const std::uint8_t* row, std::int32_t offset) noexcept {
    const std::uint32_t* const words = words_at(row, offset);
    return two_of(words[0], words[1], words[2], offset);
  }
};

}  // namespace forebay::cuda
