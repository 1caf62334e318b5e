#pragma once

#include <cstddef>
#include <cstdint>

#include "device_words.cuh"
#include "drawn_views.cuh"
#include "make/canvas.hpp"

namespace forebay::cuda {

constexpr std::int32_t kPixels = 4;  // that a lane makes of a row, kLanes from one to the next
constexpr std::int32_t kStripWidth = kLanes * kPixels;

// How the elements of a type are made of the sum that a byte is in.
template <DType kDType>
struct Elements {
  using Type = std::uint16_t;

  // fma(byte, 1 / std, -mean / std), rounded once to float and then to the type.
  static __device__ __forceinline__ float normalised(std::uint32_t sum, float scale, float offset) noexcept {
    // The byte in the last place of 2^23, which is then taken off.
    return __fmaf_rn(__uint_as_float(__byte_perm(sum, 0x4b000000U, 0x7442)) - 8388608.0F, scale, offset);
  }
  static __device__ __forceinline__ Type of(std::uint32_t sum, float scale, float offset) noexcept {
    const float value = normalised(sum, scale, offset);
    if constexpr (kDType == DType::float16) {
      return __half_as_ushort(__float2half_rn(value));
    } else {
      return __bfloat16_as_ushort(__float2bfloat16_rn(value));
    }
  }
};
template <>
struct Elements<DType::float32> {
  using Type = float;
  static __device__ __forceinline__ Type of(std::uint32_t sum, float scale, float offset) noexcept {
    return Elements<DType::float16>::normalised(sum, scale, offset);
  }
};
template <>
struct Elements<DType::uint8> {
  using Type = std::uint8_t;
  static __device__ __forceinline__ Type of(std::uint32_t sum, float /*scale*/, float /*offset*/) noexcept {
    return static_cast<Type>(sum >> kPoint);
  }
};

// Writes a warp's pixels of rows of a sample, one below the other: each lane one element at a time, so that a store of
// the warp fills memory without gaps, wherever its row begins.
template <typename Element, Layout kLayout>
class RowWriter {
 public:
  // `sample`: its first element. `interleaved`: of this warp, 3 * kStripWidth elements; used by Layout::nhwc only.
  __device__ __forceinline__ RowWriter(const ViewShape& shape, Element* sample, std::int32_t first_column,
                                       std::int32_t first_row, Element* interleaved) noexcept
      : lane_(static_cast<std::int32_t>(threadIdx.x) % kLanes),
        width_(shape.width),
        pixels_(shape.width - first_column),
        interleaved_(interleaved) {
    const auto width = static_cast<std::size_t>(shape.width);
    const std::size_t first = static_cast<std::size_t>(first_row) * width + static_cast<std::size_t>(first_column);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      to_[channel] =
          sample + lane_ +
          (kLayout == Layout::nchw ? first + channel * width * static_cast<std::size_t>(shape.height) : 3 * first);
    }
  }

  // Whether any lane has a pixel i in a row.
  [[nodiscard]] __device__ __forceinline__ bool has_pixels(std::int32_t i) const noexcept {
    return kLanes * i < pixels_;
  }
  // Pixel i of the lane, if it has that many; finish() must follow those of a row.
  __device__ __forceinline__ void write(std::int32_t i, std::int32_t channel, Element element) const noexcept {
    if constexpr (kLayout == Layout::nhwc) {
      interleaved_[3 * (lane_ + kLanes * i) + channel] = element;
    } else if (lane_ + kLanes * i < pixels_) {
      to_[channel][kLanes * i] = element;
    }
  }

  // All lanes: the row is complete, and the next one comes.
  __device__ __forceinline__ void finish() noexcept {
    if constexpr (kLayout == Layout::nchw) {
      for (auto& to : to_) to += width_;
    } else {
      __syncwarp();
#pragma unroll
      for (std::int32_t i = 0; i < 3 * kPixels; ++i) {
        if (lane_ + kLanes * i < 3 * pixels_) to_[0][kLanes * i] = interleaved_[lane_ + kLanes * i];
      }
      __syncwarp();
      to_[0] += 3 * width_;
    }
  }

 private:
  std::int32_t lane_;
  std::int32_t width_;   // of the result
  std::int32_t pixels_;  // from the warp's first one to the end of the row
  Element* to_[3];       // of the lane, in the row that is written: channels or, interleaved, the first of them
  Element* interleaved_;
};

}  // namespace forebay::cuda
