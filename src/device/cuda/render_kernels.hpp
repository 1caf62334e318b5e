#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_function.hpp"
#include "make/canvas.hpp"
#include "make/held_jpeg.hpp"

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
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t view_bytes(const RenderPlan& plan) noexcept {
  const std::size_t words =
      axis_words(plan.most_width(), plan.view.width) + axis_words(plan.most_height(), plan.view.height);
  return (kViewHeader + 4 * words + 255) / 256 * 256;
}

// Where coefficients are held: what one sample's view takes while it is rendered, its pixels and the samples that they
// are made of.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t expanded_bytes(const RenderPlan& plan) noexcept {
  return (2 * most_expanded(plan.canvas) + 255) / 256 * 256;
}
// Then as many samples are rendered at once as there is such memory for.
constexpr std::size_t kMostExpandedAtOnce = std::size_t{128} << 20;
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t samples_at_once(const RenderPlan& plan) noexcept {
  if (!plan.holds_coefficients) return plan.canvas.batch_size;
  const std::size_t room = kMostExpandedAtOnce / expanded_bytes(plan);
  return room < 1 ? 1 : room < plan.canvas.batch_size ? static_cast<std::uint32_t>(room) : plan.canvas.batch_size;
}
// Groups of blocks that a sample can have: of as many blocks as there is memory for, and one that is not full for each
// row of blocks of three components, whose highest is as high as kMostShrink times the result and some MCUs more.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t most_groups(const RenderPlan& plan) noexcept {
  constexpr std::int32_t kMostShare = 4;  // of an MCU's rows of blocks
  const std::int32_t side = plan.view.width > plan.view.height ? plan.view.width : plan.view.height;
  const std::int64_t rows = kMostShrink * side / 8 + std::int64_t{3} * kMostShare;
  return static_cast<std::uint32_t>(most_expanded(plan.canvas) / (kBlockSize * kGroupBlocks)) +
         static_cast<std::uint32_t>(3 * rows);
}

// Scratch memory of a renderer: made once, before the first batch.
[[nodiscard]] constexpr std::size_t scratch_bytes(const RenderPlan& plan) noexcept {
  return view_bytes(plan) * plan.canvas.batch_size +
         (plan.holds_coefficients ? expanded_bytes(plan) * samples_at_once(plan) : 0);
}

struct RenderLaunch {
  const RenderPlan* plan = nullptr;         // in memory of the host
  const RenderPlan* device_plan = nullptr;  // the same in memory of the device
  RenderBatch batch;
  std::byte* scratch = nullptr;  // scratch_bytes(*plan) in memory of the device, aligned to 256; of this stream alone
  std::byte* out = nullptr;      // in memory of the device, aligned to 256
  // The samples that a kernel renders: see for_each_part().
  std::uint32_t first = 0;
  std::uint32_t end = 0;
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
