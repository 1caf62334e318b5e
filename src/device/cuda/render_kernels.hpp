#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_function.hpp"
#include "make/canvas.hpp"

// The kernels of the dequeue transform behind plain functions, so that what calls them needs no CUDA compiler.
// render.cu defines them. It is compiled with -std=c++20 -fmad=false --expt-relaxed-constexpr: fused multiplications
// would draw other views than the host.
namespace forebay::cuda {

constexpr std::size_t kViewHeader = 256;

// Words that the table of one axis takes: for each pixel of the result where its input pixels begin, and its
// coefficients in twos, two of them or more.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t axis_words(std::int64_t in, std::int64_t out) noexcept {
  const std::int64_t pairs = ((2 * in + out - 1) / out + 1) / 2;
  return static_cast<std::size_t>(out * (1 + (pairs > 2 ? pairs : 2)));
}

// What one sample's view takes in scratch memory: a header and the tables of both axes.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t view_bytes(const make::RenderPlan& plan) noexcept {
  const std::size_t words =
      axis_words(plan.canvas.width, plan.view.width) + axis_words(plan.canvas.height, plan.view.height);
  return (kViewHeader + 4 * words + 255) / 256 * 256;
}

// Scratch memory of a renderer: made once, before the first batch.
[[nodiscard]] constexpr std::size_t scratch_bytes(const make::RenderPlan& plan) noexcept {
  return view_bytes(plan) * plan.canvas.batch_size * plan.views;
}

struct RenderLaunch {
  const make::RenderPlan* plan = nullptr;
  make::RenderBatch batch;
  std::byte* scratch = nullptr;  // scratch_bytes(*plan) in memory of the device, aligned to 256; of this stream alone
  std::byte* out = nullptr;      // in memory of the device, aligned to 256
};

}  // namespace forebay::cuda

extern "C" {

// Puts on the stream (a cudaStream_t) the drawing of the views of launch.batch: fills launch.scratch. Returns a
// cudaError_t, 0 when all is well. Nothing is done for an empty batch. Any thread whose current device is the stream's.
[[nodiscard]] int forebay_draw_views(const forebay::cuda::RenderLaunch& launch, void* stream) noexcept;

// Puts on the stream the rendering of the views in launch.scratch to launch.out; after forebay_draw_views() of the
// same launch on the same stream. Returns likewise.
[[nodiscard]] int forebay_render_views(const forebay::cuda::RenderLaunch& launch, void* stream) noexcept;

}  // extern "C"
