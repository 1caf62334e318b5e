#pragma once

#include <cstddef>
#include <cstdint>

#include "device_words.cuh"
#include "drawn_views.cuh"
#include "make/canvas_math.hpp"
#include "row_writer.cuh"

namespace forebay::cuda {

constexpr std::int32_t kWarps = 8;  // of a block
constexpr std::int32_t kStripRows = 16;

// Coefficients of a pixel along one axis, kPairs of two.
template <std::int32_t kPairs>
struct LaneTaps {
  static constexpr std::int32_t taps = 2 * kPairs;

  std::int32_t first;
  std::int32_t precision;
  std::uint32_t pairs[kPairs];

  __device__ __forceinline__ void read(const ResamplingAxis& axis, const AxisTable& table, std::int32_t i) noexcept {
    first = static_cast<std::int32_t>(table.first(i));
    precision = axis.precision;
#pragma unroll
    for (std::int32_t at = 0; at < kPairs; ++at) pairs[at] = table.pair(i, at);
  }
  __device__ __forceinline__ std::uint32_t pair(std::int32_t at) const noexcept { return pairs[at]; }
};

// As many as there are; they stay in the table.
template <>
struct LaneTaps<0> {
  std::int32_t first;
  std::int32_t taps;
  std::int32_t precision;
  const std::uint32_t* pairs;
  std::int32_t stride;

  __device__ __forceinline__ void read(const ResamplingAxis& axis, const AxisTable& table, std::int32_t i) noexcept {
    first = static_cast<std::int32_t>(table.first(i));
    taps = axis.taps;
    precision = axis.precision;
    pairs = &table.pair(i, 0);
    stride = table.out;
  }
  __device__ __forceinline__ std::uint32_t pair(std::int32_t at) const noexcept {
    return pairs[static_cast<std::size_t>(at) * static_cast<std::size_t>(stride)];
  }
};

[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t parts(std::int32_t whole, std::int32_t part) noexcept {
  return (whole + part - 1) / part;
}

// How the work of a launch is dealt out.
template <typename Element>
struct Deal {
  static constexpr std::int32_t kWidth = LanePixels<Element>::kWidth;  // of a strip

  std::int32_t strips_across;
  std::int32_t strips_down;
  std::size_t table_bytes;        // of shared memory, first
  std::size_t mixed_bytes;        // then, of each warp: a mixed row
  std::size_t interleaved_bytes;  // and what its lanes exchange

  FOREBAY_HOST_DEVICE explicit constexpr Deal(const RenderPlan& plan) noexcept
      : strips_across(parts(plan.view.width, kWidth)),
        strips_down(parts(plan.view.height, kStripRows)),
        table_bytes(3 * 256 * sizeof(Element)),
        mixed_bytes(0),
        interleaved_bytes(plan.layout == Layout::nhwc ? 3 * kWidth * sizeof(Element) : 0) {
    // The pixels that a strip's columns can need, a window more than their share of the widest view; and two words
    // that reading aligned ones adds.
    const std::int64_t in = plan.canvas.width;
    const std::int64_t out = plan.view.width;
    const std::int64_t wider = in > out ? in : out;
    const std::int64_t pixels = (kWidth * wider + out - 1) / out + (2 * wider + out - 1) / out + 2;
    mixed_bytes = static_cast<std::size_t>((3 * (pixels < in ? pixels : in) + 3 * kWord + 15) / 16 * 16);
  }
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t strips() const noexcept {
    return static_cast<std::uint32_t>(strips_across) * static_cast<std::uint32_t>(strips_down);
  }
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t warp_bytes() const noexcept {
    return mixed_bytes + interleaved_bytes;
  }
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t shared_bytes() const noexcept {
    return table_bytes + kWarps * warp_bytes();
  }
  // Blocks that a batch takes.
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t blocks(std::uint32_t samples) const noexcept {
    return (strips() * samples + kWarps - 1) / kWarps;
  }
};

// One warp's work on one strip, with kPairs pairs of coefficients for each pixel along a row, at most two down a
// column; or any number with 0. kChanged: operations change the pixels.
template <typename Element, Output kOutput, std::int32_t kPairs, bool kChanged>
class StripRenderer {
  using Lane = LanePixels<Element>;
  static constexpr std::int32_t kPixels = Lane::kPixels;
  static constexpr std::int32_t kRowPairs = kPairs == 0 ? 0 : 2;  // of rows that are mixed first

 public:
  __device__ __forceinline__ StripRenderer(const RenderPlan& plan, const RenderLaunch& launch, std::uint32_t sample,
                                           std::int32_t first_column, std::int32_t first_row, const Element* table,
                                           std::uint8_t* mixed, std::uint32_t* interleaved) noexcept
      : tables_(tables_of(plan, launch.scratch, sample)),
        across_(resampling_axis(tables_.view->region.width(), plan.view.width)),
        down_(resampling_axis(tables_.view->region.height(), plan.view.height)),
        row_bytes_(tables_.view->row_bytes),
        rows_(tables_.view->rows),
        lane_(static_cast<std::int32_t>(threadIdx.x) % kLanes),
        first_column_(first_column),
        first_row_(first_row),
        height_(first_row + kStripRows < plan.view.height ? kStripRows : plan.view.height - first_row),
        width_(plan.view.width),
        table_(table),
        mixed_(mixed),
        writer_(plan, first_column, interleaved),
        out_(reinterpret_cast<Element*>(launch.out + plan.sample_bytes() * sample)) {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      // A lane beside the row computes the last column, and does not write it.
      const std::int32_t x = column() + i < width_ ? column() + i : width_ - 1;
      columns_[i].read(across_, tables_.columns, x);
      offsets_[i] = 3 * (tables_.view->left + columns_[i].first);
    }
  }

  __device__ __forceinline__ void render() noexcept {
    if (mixes_first(down_)) {
      mixed_then_resampled();
    } else {
      resampled_then_mixed();
    }
  }

 private:
  __device__ __forceinline__ std::int32_t column() const noexcept { return first_column_ + lane_ * kPixels; }
  __device__ __forceinline__ Element* first_out() const noexcept {
    return out_ + static_cast<std::size_t>(first_row_) * static_cast<std::size_t>(writer_.row_step());
  }
  __device__ __forceinline__ const std::uint8_t* region_row(std::int32_t y) const noexcept {
    return rows_ + static_cast<std::size_t>(y) * row_bytes_;
  }

  // This lane's pixels of a row of the region at the new width.
  __device__ __forceinline__ void resample_row(const std::uint8_t* row,
                                               std::uint32_t (&pixels)[kPixels]) const noexcept {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      pixels[i] = resampled_mix<CanvasWords>(row, offsets_[i], columns_[i]).pixel();
    }
  }

  // A row of the result has two rows of the region at most, and shares them with its neighbours. What the table says of
  // a row is read while the one before is made.
  __device__ __forceinline__ void resampled_then_mixed() noexcept {
    std::uint32_t upper[kPixels] = {};
    std::uint32_t lower[kPixels] = {};
    const std::uint32_t* table = &tables_.rows.first(first_row_);
    const std::uint32_t* const pairs = &tables_.rows.pair(first_row_, 0);
    std::uint32_t first = table[0];
    std::uint32_t pair = pairs[0];
    std::uint32_t to_come = first;  // the row below `lower`
    const std::uint8_t* row = region_row(static_cast<std::int32_t>(first));
    // A single row is the lower one.
    const std::uint32_t rows = static_cast<std::uint32_t>(down_.taps);
    const std::uint32_t shift = rows == 1 ? 16 : 0;
    Element* out = first_out();
    for (std::int32_t y = 0; y < height_; ++y, out += writer_.row_step()) {
      const std::uint32_t end = first + rows;
      const std::uint32_t present = pair << shift;
      if (y + 1 < height_) {
        first = table[y + 1];
        pair = pairs[y + 1];
      }
#pragma unroll 1
      for (; to_come < end; ++to_come, row += row_bytes_) {
#pragma unroll
        for (std::int32_t i = 0; i < kPixels; ++i) upper[i] = lower[i];
        resample_row(row, lower);
      }
      // Enlarging has the base precision.
      write(out, y, [&](std::int32_t i) {
        WordMix<DeviceWords> mix(kBasePrecision);
        mix.add(upper[i], lower[i], present);
        return mix;
      });
    }
  }

  __device__ __forceinline__ void mixed_then_resampled() noexcept {
    const std::int32_t behind = first_column_ + Lane::kWidth;
    const auto one_end = static_cast<std::int32_t>(tables_.columns.first(first_column_));
    const auto other_end = static_cast<std::int32_t>(tables_.columns.first((behind < width_ ? behind : width_) - 1));
    const std::int32_t left = tables_.view->left;
    const std::int32_t from = 3 * (left + (one_end < other_end ? one_end : other_end)) / kWord * kWord;
    const std::int32_t end = 3 * (left + (one_end < other_end ? other_end : one_end) + across_.taps);
    Element* out = first_out();
    for (std::int32_t y = 0; y < height_; ++y, out += writer_.row_step()) {
      mix_rows(first_row_ + y, from, parts(end - from, kWord));
      __syncwarp();
      write(out, y, [&](std::int32_t i) { return resampled_mix<RowWords>(mixed_, offsets_[i] - from, columns_[i]); });
      __syncwarp();
    }
  }

  // Writes the mean of the rows that make row y, `words` words from byte `from` of the rows on.
  __device__ __forceinline__ void mix_rows(std::int32_t y, std::int32_t from, std::int32_t words) const noexcept {
    LaneTaps<kRowPairs> rows;
    rows.read(down_, tables_.rows, y);
    const std::uint8_t* const top = region_row(rows.first) + from;
    for (std::int32_t w = lane_; w < words; w += kLanes) {
      reinterpret_cast<std::uint32_t*>(mixed_)[w] = mixed_word<DeviceWords>(rows, [&](std::int32_t t) {
        // What is behind the last row has no weight, and may not be there.
        const std::int32_t row = t < down_.taps ? t : down_.taps - 1;
        return __ldg(reinterpret_cast<const std::uint32_t*>(top + static_cast<std::size_t>(row) * row_bytes_) + w);
      });
    }
  }

  // mix_of(i) is the mean that pixel i of the lane is in row y of the strip, not yet rounded.
  template <class MixOf>
  __device__ __forceinline__ void write(Element* row, std::int32_t y, const MixOf& mix_of) const noexcept {
    std::uint32_t elements[3][kPixels];
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      const auto mix = mix_of(i);
      std::uint32_t changed = 0;
      if constexpr (kChanged) changed = changed_pixel(tables_.view->change, column() + i, first_row_ + y, mix.pixel());
#pragma unroll
      for (std::int32_t channel = 0; channel < 3; ++channel) {
        const std::uint32_t value = kChanged ? changed >> (8 * channel) & 0xffU : mix.rounded(channel);
        elements[channel][i] = table_[256 * channel + static_cast<std::int32_t>(value)];
      }
    }
    writer_.write(row, elements);
  }

  ViewTables tables_;
  ResamplingAxis across_;
  ResamplingAxis down_;
  std::size_t row_bytes_;
  const std::uint8_t* rows_;  // the first of the region, from the left edge of what it is cut out of
  std::int32_t lane_;
  std::int32_t first_column_;
  std::int32_t first_row_;
  std::int32_t height_;  // rows of the strip
  std::int32_t width_;   // of the result
  const Element* table_;
  std::uint8_t* mixed_;
  RowWriter<Element, kOutput> writer_;
  Element* out_;
  LaneTaps<kPairs> columns_[kPixels];
  std::int32_t offsets_[kPixels];  // in bytes, of the first pixel of each
};

}  // namespace forebay::cuda
