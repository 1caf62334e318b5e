#pragma once

#include <cstddef>
#include <cstdint>

#include "device_words.cuh"
#include "make/canvas_math.hpp"
#include "render_kernels.hpp"

namespace forebay::cuda {

constexpr std::int32_t kDrawThreads = 256;

// How many weights a pixel has along an axis, and what sums of them must still be shifted by.
struct DrawnAxis {
  std::int32_t taps;
  std::int32_t excess;
};

// What rendering needs of a sample's view; the tables follow it.
struct alignas(16) DrawnView {
  const std::uint8_t* rows;  // the region's first one, from the left edge of the canvas
  std::size_t row_bytes;     // from one to the next
  std::int32_t mixes_first;
  DrawnAxis across;
  DrawnAxis down;
  make::PixelChange change;  // where there are operations
};
static_assert(sizeof(DrawnView) <= kViewHeader);

// The table of an axis of `out` pixels: where the input of each begins (of a column its byte in the rows, of a row its
// number), then the first pairs of coefficients of all, then the second ones; and so on. There are two at least, those
// behind the last coefficient are 0.
struct AxisTable {
  std::uint32_t* words;
  std::int32_t out;

  __device__ std::uint32_t& first(std::int32_t i) const noexcept { return words[i]; }
  __device__ std::uint32_t& pair(std::int32_t i, std::int32_t at) const noexcept { return words[(at + 1) * out + i]; }
  __device__ void set(std::int32_t i, std::int32_t begin, const make::PixelTaps& taps) const noexcept {
    first(i) = static_cast<std::uint32_t>(begin);
    for (std::int32_t at = 0; at < 2 || 2 * at < taps.taps; ++at) {
      pair(i, at) = scaled_pair(taps.pair(at), taps.precision);
    }
  }
};

struct ViewTables {
  DrawnView* view;
  AxisTable columns;  // in the order of the result, mirrored or not
  AxisTable rows;
};

// How views lie in scratch memory, computed once on the host.
struct ViewShape {
  std::size_t bytes;         // of one
  std::size_t column_words;  // of its table of columns, which that of rows follows
  std::int32_t width;        // of the result
  std::int32_t height;

  explicit constexpr ViewShape(const make::RenderPlan& plan) noexcept
      : bytes(view_bytes(plan)),
        column_words(axis_words(plan.canvas.width, plan.view.width)),
        width(plan.view.width),
        height(plan.view.height) {}
  [[nodiscard]] __device__ ViewTables tables(std::byte* scratch, std::uint32_t sample) const noexcept {
    std::byte* const at = scratch + bytes * sample;
    auto* const columns = reinterpret_cast<std::uint32_t*>(at + kViewHeader);
    return {reinterpret_cast<DrawnView*>(at), {columns, width}, {columns + column_words, height}};
  }
};

// Two blocks for each sample, for the table of either axis: one thread of each draws, all of them make the table.
[[nodiscard]] constexpr std::uint32_t draw_blocks(std::uint32_t samples) noexcept { return 2 * samples; }

// Whether 32 bits do for the tables, which makes half the code.
[[nodiscard]] constexpr bool is_narrow(const make::RenderPlan& plan) noexcept {
  const auto widest = static_cast<std::int32_t>(plan.canvas.width);
  const auto tallest = static_cast<std::int32_t>(plan.canvas.height);
  return make::is_narrow(make::resampling_axis(widest, plan.view.width)) &&
         make::is_narrow(make::resampling_axis(tallest, plan.view.height));
}

// Number: of 32 bits where is_narrow(plan), else of 64.
template <class Number>
__global__ void __launch_bounds__(kDrawThreads)
    draw_views(make::RenderPlan plan, ViewShape shape, make::RenderBatch batch, std::byte* scratch) {
  __shared__ std::int32_t begin;  // of the region along the axis
  __shared__ std::int32_t length;
  __shared__ std::int32_t reversed;
  const std::uint32_t sample = blockIdx.x / 2;  // counted in views
  const bool is_across = blockIdx.x % 2 == 0;
  const ViewTables tables = shape.tables(scratch, sample);
  if (threadIdx.x == 0) {
    const make::CanvasFormat& format = plan.canvas;
    const make::CanvasInfo info = make::info_of(format, batch.canvases, sample / plan.views);
    const make::ImageView view =
        make::canvas_view(plan, info, batch.epoch, batch.first_position + sample, batch.use_index);
    begin = is_across ? view.region.left : 0;
    length = is_across ? view.region.width() : view.region.height();
    reversed = is_across && view.mirror ? 1 : 0;
    if (is_across) {
      const make::ResamplingAxis across = make::resampling_axis(view.region.width(), plan.view.width);
      const make::ResamplingAxis down = make::resampling_axis(view.region.height(), plan.view.height);
      DrawnView drawn;
      drawn.rows = reinterpret_cast<const std::uint8_t*>(batch.canvases) +
                   format.place_bytes() * (sample / plan.views) +
                   static_cast<std::size_t>(view.region.top) * format.row_bytes();
      drawn.row_bytes = format.row_bytes();
      drawn.mixes_first = make::mixes_first(down) ? 1 : 0;
      drawn.across = {across.taps, excess_of(across)};
      drawn.down = {down.taps, excess_of(down)};
      if (plan.pixels.any()) {
        drawn.change = make::canvas_change(plan, batch.epoch, batch.first_position + sample, batch.use_index);
      }
      *tables.view = drawn;
    }
  }
  __syncthreads();
  const AxisTable& table = is_across ? tables.columns : tables.rows;
  const make::ResamplingAxis axis = make::resampling_axis(length, table.out);
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < axis.out; i += kDrawThreads) {
    const make::PixelTaps taps = make::pixel_taps<Number>(axis, i);
    table.set(reversed != 0 ? axis.out - 1 - i : i, (is_across ? 3 : 1) * (begin + taps.first), taps);
  }
}

}  // namespace forebay::cuda
