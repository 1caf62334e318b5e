#pragma once

#include <cstddef>
#include <cstdint>

#include "device_words.cuh"
#include "make/canvas.hpp"

namespace forebay::cuda {

// What a lane makes of the elements of one size.
template <typename Element>
struct LanePixels {
  static constexpr std::int32_t kPixels = sizeof(Element) == 4 ? 2 : 4;
  static constexpr std::int32_t kInWord = kWord / static_cast<std::int32_t>(sizeof(Element));
  static constexpr std::int32_t kWords = kPixels / kInWord;  // of one channel
  static constexpr std::int32_t kWidth = kLanes * kPixels;   // of a warp
};

// How the elements of a lane go to memory: each channel's to its plane, pixels beside each other, or one by one in
// either layout, where lanes do not fill rows.
enum class Output : std::uint8_t { planes, pixels, single };

// Writes a warp's pixels of rows of a sample.
template <typename Element, Output kOutput>
class RowWriter {
  using Lane = LanePixels<Element>;
  static constexpr std::int32_t kPixels = Lane::kPixels;

 public:
  // `interleaved`: of this warp, 3 * kWidth elements; used by Output::pixels only.
  __device__ __forceinline__ RowWriter(const RenderPlan& plan, std::int32_t first_column,
                                       std::uint32_t* interleaved) noexcept
      : lane_(static_cast<std::int32_t>(threadIdx.x) % kLanes),
        first_column_(first_column),
        lane_column_(first_column + lane_ * kPixels),
        width_(plan.view.width),
        row_step_(plan.layout == Layout::nchw ? width_ : 3 * width_),
        plane_(plan.layout == Layout::nchw
                   ? static_cast<std::size_t>(width_) * static_cast<std::size_t>(plan.view.height)
                   : 1),
        interleaved_(interleaved) {}

  // Elements between rows.
  [[nodiscard]] __device__ __forceinline__ std::int32_t row_step() const noexcept { return row_step_; }

  // Writes the lane's elements by channel to the row of the sample that begins at `row`.
  __device__ __forceinline__ void write(Element* row, const std::uint32_t (&elements)[3][kPixels]) const noexcept {
    if constexpr (kOutput == Output::planes) {
      write_planes(row, elements);
    } else if constexpr (kOutput == Output::pixels) {
      write_pixels(row, elements);
    } else {
      write_single(row, elements);
    }
  }

 private:
  // Each channel's elements with one store.
  __device__ __forceinline__ void write_planes(Element* row,
                                               const std::uint32_t (&elements)[3][kPixels]) const noexcept {
    if (lane_column_ >= width_) return;
    Element* const to = row + lane_column_;
#pragma unroll
    for (std::int32_t channel = 0; channel < 3; ++channel) {
      std::uint32_t words[Lane::kWords] = {};
#pragma unroll
      for (std::int32_t i = 0; i < kPixels; ++i) put(words, i, elements[channel][i]);
      auto* const place = to + plane_ * static_cast<std::size_t>(channel);
      if constexpr (Lane::kWords == 2) {
        *reinterpret_cast<uint2*>(place) = make_uint2(words[0], words[1]);
      } else {
        *reinterpret_cast<std::uint32_t*>(place) = words[0];
      }
    }
  }

  // The words of all lanes change places, so that the warp writes words in a row.
  __device__ __forceinline__ void write_pixels(Element* row,
                                               const std::uint32_t (&elements)[3][kPixels]) const noexcept {
    constexpr std::int32_t kWords = 3 * Lane::kWords;
    std::uint32_t words[kWords] = {};
#pragma unroll
    for (std::int32_t i = 0; i < 3 * kPixels; ++i) put(words, i, elements[i % 3][i / 3]);
#pragma unroll
    for (std::int32_t i = 0; i < kWords; ++i) interleaved_[kWords * lane_ + i] = words[i];
    __syncwarp();
    const std::int32_t lanes = (width_ - first_column_) / kPixels;
    const std::int32_t end = kWords * (lanes < kLanes ? lanes : kLanes);
    auto* const to = reinterpret_cast<std::uint32_t*>(row + 3 * first_column_);
#pragma unroll
    for (std::int32_t i = 0; i < kWords; ++i) {
      const std::int32_t word = lane_ + i * kLanes;
      if (word < end) to[word] = interleaved_[word];
    }
    __syncwarp();
  }

  // Rows that lanes do not fill.
  __device__ __forceinline__ void write_single(Element* row,
                                               const std::uint32_t (&elements)[3][kPixels]) const noexcept {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      if (lane_column_ + i >= width_) return;
      Element* const to = row + (row_step_ == width_ ? 1 : 3) * (lane_column_ + i);
#pragma unroll
      for (std::int32_t channel = 0; channel < 3; ++channel) {
        to[plane_ * static_cast<std::size_t>(channel)] = static_cast<Element>(elements[channel][i]);
      }
    }
  }

  // Puts element i of a row of elements into its word.
  template <std::size_t kWords>
  static __device__ __forceinline__ void put(std::uint32_t (&words)[kWords], std::int32_t i,
                                             std::uint32_t element) noexcept {
    constexpr std::int32_t kBits = 8 * static_cast<std::int32_t>(sizeof(Element));
    words[i / Lane::kInWord] |= element << (i % Lane::kInWord * kBits);
  }

  std::int32_t lane_;
  std::int32_t first_column_;  // of the warp
  std::int32_t lane_column_;   // of the lane
  std::int32_t width_;
  std::int32_t row_step_;  // elements between rows
  std::size_t plane_;      // and between channels of a pixel
  std::uint32_t* interleaved_;
};

}  // namespace forebay::cuda
