#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "device_words.cuh"
#include "drawn_views.cuh"
#include "incoming_rows.cuh"
#include "make/canvas_math.hpp"
#include "row_writer.cuh"

namespace forebay::cuda {

constexpr std::int32_t kWarps = 4;  // of a block
constexpr std::int32_t kStripRows = 8;
// Whether views of this many times more pixels than the result have at most 3 weights along an axis, and a strip's part
// of a row is at most one chunk for each lane.
[[nodiscard]] constexpr bool is_few(std::int64_t in, std::int64_t out) noexcept { return 4 * in <= 5 * out; }
static_assert(3 * (kStripWidth * 5 / 4 + 3) + kChunk - 1 <= kRowBytes);
[[nodiscard]] constexpr bool is_few(const make::RenderPlan& plan) noexcept {
  return is_few(plan.canvas.width, plan.view.width) && is_few(plan.canvas.height, plan.view.height);
}

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
  std::uint32_t strips;  // of a sample
  // Shared memory of a warp: the ring, a mixed row, and what its lanes exchange.
  std::uint32_t ring_bytes;
  std::uint32_t mixed_bytes = 0;
  std::uint32_t warp_bytes;

  explicit constexpr Deal(const make::RenderPlan& plan) noexcept
      : shape(plan),
        sample_bytes(plan.sample_bytes()),
        scale(plan.scale),
        offset(plan.offset),
        strips_across(static_cast<std::uint32_t>(parts(plan.view.width, kStripWidth))),
        strips(strips_across * static_cast<std::uint32_t>(parts(plan.view.height, kStripRows))),
        ring_bytes(is_few(plan) ? kRingRows * kRowBytes : 0),
        warp_bytes(plan.layout == Layout::nhwc ? 3 * kStripWidth * static_cast<std::uint32_t>(size_of(plan.dtype))
                                               : 0) {
    // The pixels that a strip's columns can need, a window more than their share of the widest view; what lies before
    // them in their first chunk, two words that reading aligned ones adds, and what makes words of all lanes whole.
    const std::int64_t in = plan.canvas.width;
    const std::int64_t out = plan.view.width;
    const std::int64_t wider = in > out ? in : out;
    const std::int64_t pixels = (kStripWidth * wider + out - 1) / out + (2 * wider + out - 1) / out + 2;
    constexpr std::int64_t kWarpWords = kLanes * kWord;
    mixed_bytes = static_cast<std::uint32_t>((3 * (pixels < in ? pixels : in) + kChunk + 2 * kWord + kWarpWords - 1) /
                                             kWarpWords * kWarpWords);
    if (ring_bytes > 0) mixed_bytes = kRowBytes;
    warp_bytes += ring_bytes + mixed_bytes;
  }
  [[nodiscard]] constexpr std::size_t shared_bytes() const noexcept { return std::size_t{kWarps} * warp_bytes; }
  // Blocks that a batch takes.
  [[nodiscard]] constexpr std::uint32_t blocks(std::uint32_t samples) const noexcept {
    return (strips * samples + kWarps - 1) / kWarps;
  }
};

// The weights of a strip's rows, of one row in each lane.
class RowWeights {
 public:
  __device__ __forceinline__ RowWeights(const AxisTable& table, std::int32_t first_row, std::int32_t height,
                                        std::int32_t lane) noexcept {
    const std::int32_t i = first_row + (lane < height ? lane : height - 1);
    first_ = table.first(i);
    pair_ = table.pair(i, 0);
    third_ = table.pair(i, 1);
  }
  // All lanes ask for the same row of the strip, 0 to its height - 1.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t first(std::int32_t y) const noexcept { return of(y, first_); }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t pair(std::int32_t y) const noexcept { return of(y, pair_); }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t third(std::int32_t y) const noexcept { return of(y, third_); }

 private:
  static __device__ __forceinline__ std::uint32_t of(std::int32_t y, std::uint32_t word) noexcept {
    return __shfl_sync(0xffffffffU, word, y);
  }

  std::uint32_t first_;
  std::uint32_t pair_;
  std::uint32_t third_;
};
static_assert(kStripRows <= kLanes);

// What is known of a strip before its first pixel is made. All of it is asked for at once, because the tables were
// written by another kernel and come from the GPU's memory.
struct Strip {
  ViewTables tables;
  DrawnAxis across;
  DrawnAxis down;
  const std::uint8_t* canvas;  // the first row of the region
  std::size_t row_bytes;
  bool mixes_first;
  std::int32_t lane;
  std::int32_t first_column;
  std::int32_t first_row;
  std::int32_t height;  // rows
  std::int32_t width;   // of the result
  RowWeights rows;
  std::int32_t from;  // the first byte that any column needs
  std::int32_t end;   // and the one behind the last

  __device__ __forceinline__ Strip(const ViewShape& shape, const ViewTables& view_tables, std::int32_t column,
                                   std::int32_t row) noexcept
      : tables(view_tables),
        across(tables.view->across),
        down(tables.view->down),
        canvas(tables.view->rows),
        row_bytes(tables.view->row_bytes),
        mixes_first(tables.view->mixes_first != 0),
        lane(static_cast<std::int32_t>(threadIdx.x) % kLanes),
        first_column(column),
        first_row(row),
        height(row + kStripRows < shape.height ? kStripRows : shape.height - row),
        width(shape.width),
        rows(tables.rows, row, height, lane) {
    const std::int32_t behind = column + kStripWidth;
    const auto one_end = static_cast<std::int32_t>(tables.columns.first(column));
    const auto other_end = static_cast<std::int32_t>(tables.columns.first((behind < width ? behind : width) - 1));
    from = (one_end < other_end ? one_end : other_end) / kChunk * kChunk;
    end = (one_end < other_end ? other_end : one_end) + 3 * across.taps;
  }
  [[nodiscard]] __device__ __forceinline__ const std::uint8_t* canvas_row(std::uint32_t y) const noexcept {
    return canvas + y * row_bytes;
  }
  // Starts to copy the rows to the ring. REQUIRES: is_few().
  [[nodiscard]] __device__ __forceinline__ IncomingRows incoming(std::byte* ring) const noexcept {
    const std::uint32_t first = rows.first(0);
    const std::uint32_t behind = rows.first(height - 1) + static_cast<std::uint32_t>(down.taps);
    return {
        ring, canvas_row(first) + from, row_bytes, static_cast<std::int32_t>(behind - first), parts(end - from, kChunk),
        lane};
  }
};

// One warp's work on one strip, with kTaps weights for each pixel along a row and up to 3 down a column; or, with 0,
// any number along either axis. kChanged: operations change the pixels.
template <DType kDType, Layout kLayout, std::int32_t kTaps, bool kChanged>
class StripRenderer {
  using Element = typename Elements<kDType>::Type;
  static constexpr bool kFew = kTaps != 0;

 public:
  // `shared`: the warp's, behind its ring.
  __device__ __forceinline__ StripRenderer(const Deal& deal, const Strip& strip, std::byte* sample,
                                           std::byte* shared) noexcept
      : strip_(strip),
        mixed_(reinterpret_cast<std::uint32_t*>(shared)),
        writer_(deal.shape, reinterpret_cast<Element*>(sample), strip.first_column, strip.first_row,
                reinterpret_cast<Element*>(shared + deal.mixed_bytes)),
        scale_(deal.scale),
        offset_(deal.offset) {
#pragma unroll
    for (std::int32_t i = 0; i < kPixels; ++i) {
      // What lies beside the row is not made.
      const std::int32_t x = column(i) < strip_.width ? column(i) : strip_.width - 1;
      columns_[i].read(strip_.tables.columns, x);
      offsets_[i] = static_cast<std::int32_t>(strip_.tables.columns.first(x));
    }
  }

  // Few weights: with the canvas's rows in the ring. Any number: from the canvas itself.
  __device__ __forceinline__ void render(IncomingRows& incoming) noexcept {
    count_offsets_from_strip();
    if (strip_.mixes_first) {
      mixed_in_ring(incoming);
    } else {
      resampled_in_ring(incoming);
    }
  }
  __device__ __forceinline__ void render() noexcept {
    if (strip_.mixes_first) {
      count_offsets_from_strip();
      mixed_from_canvas();
    } else {
      resampled_from_canvas();
    }
  }

 private:
  // Of pixel i of the lane.
  __device__ __forceinline__ std::int32_t column(std::int32_t i) const noexcept {
    return strip_.first_column + strip_.lane + kLanes * i;
  }
  __device__ __forceinline__ void count_offsets_from_strip() noexcept {
#pragma unroll
    for (auto& offset : offsets_) offset -= strip_.from;
  }

  // Pixel i of the lane, of a row at the old width.
  template <class Memory>
  __device__ __forceinline__ Sums resampled(const std::uint8_t* row, std::int32_t i) const noexcept {
    if constexpr (kFew) {
      Sums sums(0);
      add_neighbours<kTaps, Memory>(sums, row, offsets_[i], columns_[i].first, columns_[i].second);
      return sums;
    } else {
      Sums sums(strip_.across.excess);
      for (std::int32_t t = 0; t < strip_.across.taps; t += 2) {
        add_neighbours<2, Memory>(sums, row, offsets_[i] + 3 * t, columns_[i].pair(t / 2), 0);
      }
      sums.shift(strip_.across.excess);
      return sums;
    }
  }

  // A row of the result has two rows of the region at most, and shares them with its neighbours: `resample(lower)`
  // makes the next one of the region.
  template <class Resample>
  __device__ __forceinline__ void mixed_of_two(const Resample& resample) noexcept {
    std::uint32_t upper[kPixels] = {};
    std::uint32_t lower[kPixels] = {};
    std::uint32_t to_come = strip_.rows.first(0);  // the row below `lower`
    // A single row is the lower one.
    const auto rows = static_cast<std::uint32_t>(strip_.down.taps);
    const std::uint32_t shift = rows == 1 ? 16 : 0;
    for (std::int32_t y = 0; y < strip_.height; ++y) {
      const std::uint32_t end = strip_.rows.first(y) + rows;
      const std::uint32_t pair = strip_.rows.pair(y) << shift;
#pragma unroll 1
      for (; to_come < end; ++to_come) {
#pragma unroll
        for (std::int32_t i = 0; i < kPixels; ++i) upper[i] = lower[i];
        resample(lower);
      }
      write(y, [&](std::int32_t i) {
        Sums sums(0);  // enlarging has the base precision
        sums.add(upper[i], lower[i], pair);
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

  __device__ __forceinline__ void resampled_from_canvas() noexcept {
    const std::uint8_t* row = strip_.canvas_row(strip_.rows.first(0));
    mixed_of_two([&](std::uint32_t(&pixels)[kPixels]) {
      resample_row<CanvasMemory>(row, pixels);
      row += strip_.row_bytes;
    });
  }

  __device__ __forceinline__ void resampled_in_ring(IncomingRows& incoming) noexcept {
    std::uint32_t next = 0;
    mixed_of_two([&](std::uint32_t(&pixels)[kPixels]) {
      incoming.wait<kRingRows - 2>();
      __syncwarp();  // all lanes have the row, and none reads the one before, whose place the next copy takes
      incoming.start_next();
      resample_row<SharedMemory>(reinterpret_cast<const std::uint8_t*>(incoming.row(next)), pixels);
      ++next;
    });
  }

  // Three rows of the region make one of the result. Each lane mixes the chunks that it copied itself.
  __device__ __forceinline__ void mixed_in_ring(IncomingRows& incoming) noexcept {
    const std::uint32_t first = strip_.rows.first(0);
    std::uint32_t top = 0;
    for (std::int32_t y = 0; y < strip_.height; ++y) {
      const std::uint32_t needed = strip_.rows.first(y) - first;
      const std::uint32_t pair = strip_.rows.pair(y);
      const std::uint32_t third = strip_.rows.third(y);
#pragma unroll 1
      for (; top < needed; ++top) incoming.start_next();
      incoming.wait<kRingRows - 4>();
      const uint4 upper = incoming.chunk(top);
      const uint4 middle = incoming.chunk(top + 1);
      const uint4 lower = incoming.chunk(top + 2);  // has no weight where there are two rows
      const auto mixed = [&](std::uint32_t one, std::uint32_t two, std::uint32_t three) {
        Sums sums(0);
        sums.add(one, two, pair);
        sums.add(three, third);
        return sums.word();
      };
      reinterpret_cast<uint4*>(mixed_)[strip_.lane] = {
          mixed(upper.x, middle.x, lower.x), mixed(upper.y, middle.y, lower.y), mixed(upper.z, middle.z, lower.z),
          mixed(upper.w, middle.w, lower.w)};
      write_mixed(y);
    }
  }

  // Any number of rows, of any width.
  __device__ __forceinline__ void mixed_from_canvas() noexcept {
    const std::int32_t words = parts(strip_.end - strip_.from, kWord);
    for (std::int32_t y = 0; y < strip_.height; ++y) {
      const std::int32_t i = strip_.first_row + y;
      const std::uint8_t* const top = strip_.canvas_row(strip_.rows.first(y)) + strip_.from;
      const auto word_at = [&](std::int32_t t, std::int32_t w) {
        // What is behind the last row has no weight, and may not be there.
        const std::int32_t row = t < strip_.down.taps ? t : strip_.down.taps - 1;
        return __ldg(reinterpret_cast<const std::uint32_t*>(top + static_cast<std::size_t>(row) * strip_.row_bytes) +
                     w);
      };
#pragma unroll 1
      for (std::int32_t w = strip_.lane; w < words; w += kLanes) {
        Sums sums(strip_.down.excess);
        for (std::int32_t t = 0; t < strip_.down.taps; t += 2) {
          sums.add(word_at(t, w), word_at(t + 1, w), strip_.tables.rows.pair(i, t / 2));
        }
        sums.shift(strip_.down.excess);
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
        const std::uint32_t pixel =
            make::changed_pixel(strip_.tables.view->change, column(i), strip_.first_row + y, sums.pixel());
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

  const Strip& strip_;
  std::uint32_t* mixed_;  // a row
  RowWriter<Element, kLayout> writer_;
  std::array<float, 3> scale_;
  std::array<float, 3> offset_;
  Weights<kTaps> columns_[kPixels];
  std::int32_t offsets_[kPixels];  // of the first byte of each
};

}  // namespace forebay::cuda
