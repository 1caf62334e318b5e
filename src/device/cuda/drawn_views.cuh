#pragma once

#include <cstddef>
#include <cstdint>

#include "make/canvas_math.hpp"
#include "render_kernels.hpp"

namespace forebay::cuda {

constexpr std::int32_t kDrawThreads = 128;

// What rendering needs of a sample's view; the tables follow it.
struct alignas(16) DrawnView {
  const std::uint8_t* rows;  // the region's first one
  std::size_t row_bytes;     // from one to the next
  std::int32_t left;         // pixels of them before the region
  std::int32_t mirror;
  Box region;          // of the canvas
  PixelChange change;  // where there are operations
};
static_assert(sizeof(DrawnView) <= kViewHeader);

// The table of an axis of `out` pixels: the first input pixel of each, then the first pairs of coefficients of all,
// then the second ones; and so on. There are two at least, those behind the last coefficient are 0.
struct AxisTable {
  std::uint32_t* words;
  std::int32_t out;

  __device__ std::uint32_t& first(std::int32_t i) const noexcept { return words[i]; }
  __device__ std::uint32_t& pair(std::int32_t i, std::int32_t at) const noexcept {
    return words[static_cast<std::size_t>(at + 1) * static_cast<std::size_t>(out) + static_cast<std::size_t>(i)];
  }
  __device__ void set(std::int32_t i, const PixelTaps& taps) const noexcept {
    first(i) = static_cast<std::uint32_t>(taps.first);
    for (std::int32_t at = 0; at < 2 || 2 * at < taps.taps; ++at) pair(i, at) = taps.pair(at);
  }
};

struct ViewTables {
  DrawnView* view;
  AxisTable columns;  // in the order of the result, mirrored or not
  AxisTable rows;
};

__device__ inline ViewTables tables_of(const RenderPlan& plan, std::byte* scratch, std::uint32_t sample) noexcept {
  std::byte* const at = scratch + view_bytes(plan) * sample;
  auto* const columns = reinterpret_cast<std::uint32_t*>(at + kViewHeader);
  auto* const rows = columns + axis_words(plan.canvas.width, plan.view.width);
  return {reinterpret_cast<DrawnView*>(at), {columns, plan.view.width}, {rows, plan.view.height}};
}

__device__ inline DrawnView draw_view(const RenderPlan& plan, const RenderBatch& batch, std::uint32_t sample) noexcept {
  const CanvasFormat& format = plan.canvas;
  const CanvasInfo info = info_of(format, batch.canvases, sample);
  const ImageView view = canvas_view(plan, info, batch.epoch, batch.first_position + sample, batch.use_index);
  const auto* const place = reinterpret_cast<const std::uint8_t*>(batch.canvases) + format.place_bytes() * sample;
  DrawnView drawn;
  drawn.region = view.region;
  drawn.mirror = view.mirror ? 1 : 0;
  drawn.rows = place + static_cast<std::size_t>(view.region.top) * format.row_bytes();
  drawn.row_bytes = format.row_bytes();
  drawn.left = view.region.left;
  if (plan.pixels.any()) {
    drawn.change = canvas_change(plan, batch.epoch, batch.first_position + sample, batch.use_index);
  }
  return drawn;
}

// A block for each sample: one thread draws, all of them make the tables.
__global__ void __launch_bounds__(kDrawThreads)
    draw_views(const RenderPlan* __restrict__ plan, RenderBatch batch, std::byte* scratch) {
  __shared__ DrawnView drawn;
  const std::uint32_t sample = blockIdx.x;
  const ViewTables tables = tables_of(*plan, scratch, sample);
  if (threadIdx.x == 0) {
    drawn = draw_view(*plan, batch, sample);
    *tables.view = drawn;
  }
  __syncthreads();
  const ResamplingAxis across = resampling_axis(drawn.region.width(), plan->view.width);
  const ResamplingAxis down = resampling_axis(drawn.region.height(), plan->view.height);
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < across.out + down.out; i += kDrawThreads) {
    if (i < across.out) {
      tables.columns.set(drawn.mirror != 0 ? across.out - 1 - i : i, pixel_taps(across, i));
    } else {
      tables.rows.set(i - across.out, pixel_taps(down, i - across.out));
    }
  }
}

}  // namespace forebay::cuda
