#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "device_words.cuh"
#include "drawn_views.cuh"
#include "make/canvas_math.hpp"
#include "row_writer.cuh"

namespace forebay::cuda {

constexpr std::int32_t kWarps = 4;  // of a block
constexpr std::int32_t kStripRows = 8;
constexpr std::int32_t kWindowWords = 4;  // of a lane, of each row that is kept in registers

// Whether views of this many times more pixels than the result have at most 3 weights along either axis, and a strip's
// part of a row fits the lanes' words.
[[nodiscard]] constexpr bool is_few(std::int64_t in, std::int64_t out) noexcept { return 10 * in <= 13 * out; }
static_assert(3 * (kStripWidth * 13 / 10 + 3) + kWord - 1 <= kLanes * kWindowWords * kWord);

// Weights of a pixel along one axis: 2 or 3, or as many as there are with 0, when they stay in the table.
template <std::int32_t kTaps>
struct Weights {
  std::uint32_t first;
  std::uint32_t second;

  __device__ __forceinline__ void read(const AxisTable& table, std::int32_t i) noexcept {
    first = table.pair(i, 0);
    second = kTaps == 3 ? table.pair(i, 1) : 0;
  }
};
template <>
struct Weights<0> {
  AxisTable table;
  std::int32_t i;

  __device__ __forceinline__ void read(const AxisTable& axis, std::int32_t pixel) noexcept {
    table = axis;
    i = pixel;
  }
  __device__ __forceinline__ std::uint32_t pair(std::int32_t at) const noexcept { return table.pair(i, at); }
};

[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t parts(std::int32_t whole, std::int32_t part) noexcept {
  return (whole + part - 1) / part;
}

// How the work of a launch is dealt out, and what of the plan it takes; made on the host.
struct Deal {
  ViewShape shape;
  std::size_t sample_bytes;
  std::array<float, 3> scale;
  std::array<float, 3> offset;
  std::uint32_t strips_across;
  std::uint32_t strips;           // of a sample
  std::uint32_t warp_bytes;       // of shared memory: a mixed row
  std::uint32_t mixed_bytes = 0;  // and then what its lanes exchange

  explicit constexpr Deal(const make::RenderPlan& plan) noexcept
      : shape(plan),
        sample_bytes(plan.sample_bytes()),
        scale(plan.scale),
        offset(plan.offset),
        strips_across(static_cast<std::uint32_t>(parts(plan.view.width, kStripWidth))),
        strips(strips_across * static_cast<std::uint32_t>(parts(plan.view.height, kStripRows))),
        warp_bytes(plan.layout == Layout::nhwc ? 3 * kStripWidth * static_cast<std::uint32_t>(size_of(plan.dtype))
                                               : 0) {
    // The pixels that a strip's columns can need, a window more than their share of the widest view; two words that
    // reading aligned ones adds, and what makes words of all lanes whole.
    const std::int64_t in = plan.canvas.width;
    const std::int64_t out = plan.view.width;
    const std::int64_t wider = in > out ? in : out;
    const std::int64_t pixels = (kStripWidth * wider + out - 1) / out + (2 * wider + out - 1) / out + 2;
    constexpr std::int64_t kWarpWords = kLanes * kWord;
    mixed_bytes = static_cast<std::uint32_t>((3 * (pixels < in ? pixels : in) + 3 * kWord + kWarpWords - 1) /
                                             kWarpWords * kWarpWords);
    warp_bytes += mixed_bytes;
  }
  [[nodiscard]] constexpr std::size_t shared_bytes() const noexcept { return std::size_t{kWarps} * warp_bytes; }
  // Blocks that a batch takes.
  [[nodiscard]] constexpr std::uint32_t blocks(std::uint32_t samples) const noexcept {
    return (strips * samples + kWarps - 1) / kWarps;
  }
};

// One warp's work on one strip, with kTaps weights for each pixel along a row and up to 3 down a column; or, with 0,
// any number along either axis. kChanged: operations change the pixels.
template <DType kDType, Layout kLayout, std::int32_t kTaps, bool kChanged>
class StripRenderer {
  using Element = typename Elements<kDType>::Type;
  static constexpr bool kFew = kTaps != 0;

 public:
  __device__ __forceinline__ StripRenderer(const Deal& deal, const ViewTables& tables, std::byte* sample,
                                           std::int32_t first_column, std::int32_t first_row,
                                           std::byte* shared) noexcept
      : tables_(tables),
        across_(tables.view->across),
        down_(tables.view->down),
        row_bytes_(tables.view->row_bytes),
        rows_(tables.view->rows),
        lane_(static_cast<std::int32_t>(threadIdx.x) % kLanes),
        first_column_(first_column),
        first_row_(first_row),
        height_(first_row + kStripRows < deal.shape.height ? kStripRows : deal.shape.height - first_row),
        width_(deal.shape.width),
        mixed_(reinterpret_cast<std::uint32_t*>(shared)),
        writer_(deal.shape, reinterpret_cast<Element*>(sample), first_column, first_row,
                reinterpret_cast<Element*>(shared + deal.mixed_bytes)),
        scale_(deal.scale),
        offset_(deal.offset) {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      // What lies beside the row is not made.
      const std::int32_t x = column(i) < width_ ? column(i) : width_ - 1;
      columns_[i].read(tables_.columns, x);
      offsets_[i] = static_cast<std::int32_t>(tables_.columns.first(x));
    }
  }

  __device__ __forceinline__ void render() noexcept {
    constexpr bool kBuffered = kFew && !kChanged;  // operations need the registers
    const bool mixes_first = tables_.view->mixes_first != 0;
    if (!kBuffered && !mixes_first) {
      resampled_then_mixed();
      return;
    }
    const std::int32_t behind = first_column_ + kStripWidth;
    const auto one_end = static_cast<std::int32_t>(tables_.columns.first(first_column_));
    const auto other_end = static_cast<std::int32_t>(tables_.columns.first((behind < width_ ? behind : width_) - 1));
    const std::int32_t from = (one_end < other_end ? one_end : other_end) / kWord * kWord;
    const std::int32_t end = (one_end < other_end ? other_end : one_end) + 3 * across_.taps;
    const std::int32_t words = parts(end - from, kWord);
#pragma unroll
    for (auto& offset : offsets_) offset -= from;
    if constexpr (!kBuffered) {
      mixed_from_canvas(from, words);
    } else if (mixes_first) {
      mixed_in_window(from, words);
    } else {
      resampled_in_turn(from, words);
    }
  }

 private:
  // Of pixel i of the lane.
  __device__ __forceinline__ std::int32_t column(std::int32_t i) const noexcept {
    return first_column_ + lane_ + kLanes * i;
  }
  __device__ __forceinline__ const std::uint8_t* region_row(std::int32_t y) const noexcept {
    return rows_ + static_cast<std::size_t>(y) * row_bytes_;
  }

  // Pixel i of the lane, of a row at the old width.
  template <class Memory>
  __device__ __forceinline__ Sums resampled(const std::uint8_t* row, std::int32_t i) const noexcept {
    if constexpr (kFew) {
      Sums sums(0);
      add_neighbours<kTaps, Memory>(sums, row, offsets_[i], columns_[i].first, columns_[i].second);
      return sums;
    } else {
      Sums sums(across_.excess);
      for (std::int32_t t = 0; t < across_.taps; t += 2) {
        add_neighbours<2, Memory>(sums, row, offsets_[i] + 3 * t, columns_[i].pair(t / 2), 0);
      }
      sums.shift(across_.excess);
      return sums;
    }
  }

  // A row of the result has two rows of the region at most, and shares them with its neighbours: `resample(lower)`
  // makes the next one of the region. What the table says of a row is read while the one before is made.
  template <class Resample>
  __device__ __forceinline__ void mixed_of_two(const Resample& resample) noexcept {
    std::uint32_t upper[kPixels] = {};
    std::uint32_t lower[kPixels] = {};
    const std::uint32_t* table = &tables_.rows.first(first_row_);
    const std::uint32_t* const pairs = &tables_.rows.pair(first_row_, 0);
    std::uint32_t first = table[0];
    std::uint32_t pair = pairs[0];
    std::uint32_t to_come = first;  // the row below `lower`
    // A single row is the lower one.
    const std::uint32_t rows = static_cast<std::uint32_t>(down_.taps);
    const std::uint32_t shift = rows == 1 ? 16 : 0;
    for (std::int32_t y = 0; y < height_; ++y) {
      const std::uint32_t end = first + rows;
      const std::uint32_t present = pair << shift;
      if (y + 1 < height_) {
        first = table[y + 1];
        pair = pairs[y + 1];
      }
#pragma unroll 1
      for (; to_come < end; ++to_come) {
#pragma unroll
        for (std::int32_t i = 0; i < kPixels; ++i) upper[i] = lower[i];
        resample(lower);
      }
      write(y, [&](std::int32_t i) {
        Sums sums(0);  // enlarging has the base precision
        sums.add(upper[i], lower[i], present);
        return sums;
      });
    }
  }

  template <class Memory>
  __device__ __forceinline__ void resample_row(const std::uint8_t* row, std::uint32_t (&pixels)[kPixels]) noexcept {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      if (writer_.has_pixels(i)) pixels[i] = resampled<Memory>(row, i).pixel();
    }
  }

  __device__ __forceinline__ void resampled_then_mixed() noexcept {
    const std::uint8_t* row = region_row(static_cast<std::int32_t>(tables_.rows.first(first_row_)));
    mixed_of_two([&](std::uint32_t(&pixels)[kPixels]) {
      resample_row<CanvasMemory>(row, pixels);
      row += row_bytes_;
    });
  }

  // The words of each row pass through shared memory, while those of the next one are on their way to registers.
  __device__ __forceinline__ void resampled_in_turn(std::int32_t from, std::int32_t words) noexcept {
    const auto first = static_cast<std::int32_t>(tables_.rows.first(first_row_));
    std::int32_t below = tables_.view->height - 1 - first;  // rows behind the one that comes next
    const auto* next = reinterpret_cast<const std::uint32_t*>(region_row(first) + from) + lane_;
    std::uint32_t ahead[kWindowWords] = {};
    const auto read = [&] {
#pragma unroll
      for (std::int32_t j = 0; j < kWindowWords; ++j) {
        if (lane_ + kLanes * j < words) ahead[j] = __ldg(next + kLanes * j);
      }
      if (below > 0) next += row_bytes_ / kWord;
      --below;
    };
    read();
    mixed_of_two([&](std::uint32_t(&pixels)[kPixels]) {
      __syncwarp();
#pragma unroll
      for (std::int32_t j = 0; j < kWindowWords; ++j) {
        if (kLanes * j < words) mixed_[lane_ + kLanes * j] = ahead[j];
      }
      __syncwarp();
      read();
      resample_row<SharedMemory>(reinterpret_cast<const std::uint8_t*>(mixed_), pixels);
    });
  }

  // Three rows of the region make one of the result, and the fourth is on its way: each is read once, into registers.
  __device__ __forceinline__ void mixed_in_window(std::int32_t from, std::int32_t words) noexcept {
    const std::uint32_t* table = &tables_.rows.first(first_row_);
    auto top = static_cast<std::int32_t>(*table);
    std::int32_t below = tables_.view->height - 1 - top;  // rows behind the one that comes next
    const auto* next = reinterpret_cast<const std::uint32_t*>(region_row(top) + from) + lane_;
    std::uint32_t window[4][kWindowWords] = {};
    const auto read = [&](std::uint32_t(&row)[kWindowWords]) {
#pragma unroll
      for (std::int32_t j = 0; j < kWindowWords; ++j) {
        if (lane_ + kLanes * j < words) row[j] = __ldg(next + kLanes * j);
      }
      // Behind the last row the canvas may end; what is there has no weight.
      if (below > 0) next += row_bytes_ / kWord;
      --below;
    };
#pragma unroll
    for (auto& row : window) read(row);
    // What the table says of a row is read while the one before is made.
    auto first = top;
    std::uint32_t pair = table[tables_.rows.out];
    std::uint32_t third = table[2 * tables_.rows.out];
    for (std::int32_t y = 0; y < height_; ++y) {
      const auto needed = first;
      const std::uint32_t upper_two = pair;
      const std::uint32_t lowest = third;
      if (y + 1 < height_) {
        ++table;
        first = static_cast<std::int32_t>(*table);
        pair = table[tables_.rows.out];
        third = table[2 * tables_.rows.out];
      }
#pragma unroll 1
      for (; top < needed; ++top) {
#pragma unroll
        for (std::int32_t j = 0; j < kWindowWords; ++j) {
          window[0][j] = window[1][j];
          window[1][j] = window[2][j];
          window[2][j] = window[3][j];
        }
        read(window[3]);
      }
#pragma unroll
      for (std::int32_t j = 0; j < kWindowWords; ++j) {
        if (kLanes * j >= words) break;
        Sums sums(0);
        sums.add(window[0][j], window[1][j], upper_two);
        sums.add(window[2][j], lowest);
        mixed_[lane_ + kLanes * j] = sums.word();
      }
      write_mixed(y);
    }
  }

  // Any number of rows, of any width.
  __device__ __forceinline__ void mixed_from_canvas(std::int32_t from, std::int32_t words) noexcept {
    for (std::int32_t y = 0; y < height_; ++y) {
      const std::int32_t i = first_row_ + y;
      const std::uint8_t* const top = region_row(static_cast<std::int32_t>(tables_.rows.first(i))) + from;
      const auto word_at = [&](std::int32_t t, std::int32_t w) {
        // What is behind the last row has no weight, and may not be there.
        const std::int32_t row = t < down_.taps ? t : down_.taps - 1;
        return __ldg(reinterpret_cast<const std::uint32_t*>(top + static_cast<std::size_t>(row) * row_bytes_) + w);
      };
#pragma unroll 1
      for (std::int32_t w = lane_; w < words; w += kLanes) {
        Sums sums(down_.excess);
        for (std::int32_t t = 0; t < down_.taps; t += 2) {
          sums.add(word_at(t, w), word_at(t + 1, w), tables_.rows.pair(i, t / 2));
        }
        sums.shift(down_.excess);
        mixed_[w] = sums.word();
      }
      write_mixed(y);
    }
  }

  __device__ __forceinline__ void write_mixed(std::int32_t y) noexcept {
    __syncwarp();
    write(y,
          [this](std::int32_t i) { return resampled<SharedMemory>(reinterpret_cast<const std::uint8_t*>(mixed_), i); });
    __syncwarp();
  }

  // sums_of(i) has the channels of pixel i of the lane in row y of the strip.
  template <class SumsOf>
  __device__ __forceinline__ void write(std::int32_t y, const SumsOf& sums_of) noexcept {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      if (!writer_.has_pixels(i)) break;
      Sums sums = sums_of(i);
      if constexpr (kChanged) {
        const std::uint32_t pixel = make::changed_pixel(tables_.view->change, column(i), first_row_ + y, sums.pixel());
#pragma unroll
        for (std::int32_t channel = 0; channel < 3; ++channel) sums.at[channel] = pixel >> (8 * channel) << kPoint;
      }
#pragma unroll
      for (std::int32_t channel = 0; channel < 3; ++channel) {
        writer_.write(i, channel, Elements<kDType>::of(sums.at[channel], scale_[channel], offset_[channel]));
      }
    }
    writer_.finish();
  }

  ViewTables tables_;
  DrawnAxis across_;
  DrawnAxis down_;
  std::size_t row_bytes_;
  const std::uint8_t* rows_;  // the first of the region
  std::int32_t lane_;
  std::int32_t first_column_;
  std::int32_t first_row_;
  std::int32_t height_;   // rows of the strip
  std::int32_t width_;    // of the result
  std::uint32_t* mixed_;  // a row
  RowWriter<Element, kLayout> writer_;
  std::array<float, 3> scale_;
  std::array<float, 3> offset_;
  Weights<kTaps> columns_[kPixels];
  std::int32_t offsets_[kPixels];  // of the first byte of each
};

}  // namespace forebay::cuda
