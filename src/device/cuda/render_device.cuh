#pragma once

// The dequeue transform on a GPU. What a pixel is stands in make/canvas_math.hpp, which the host compiles
// too; here is only who computes which pixel, and what is kept so that nothing is computed twice.
//
// A warp makes a strip: kStripRows rows of 32 lanes' pixels, kPixels neighbours to a lane, so that each of its stores
// fills whole lines of memory. In views that are enlarged downwards a lane goes down its strip with two rows of
// resampled pixels in registers, and each row is resampled once. In others the lanes first mix the rows that make a row
// of the strip, word by word into shared memory, and then resample from there. Warps never wait for each other.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "strip_renderer.cuh"

namespace forebay::cuda {

// The block's memory whose size the launch says. Defined by whoever compiles this.
__device__ std::byte* shared_memory() noexcept;

// A warp for each strip; those of a sample follow each other. kFew: no pixel has more than four coefficients
// along either axis, as with canvases up to twice as large as the result. kChanged: operations change the pixels;
// kernels of their own, so that the others keep their registers.
template <typename Element, Output kOutput, bool kFew, bool kChanged>
__global__ void __launch_bounds__(kWarps* kLanes, 3) render_views(RenderLaunch launch) {
  const RenderPlan& plan = *launch.device_plan;
  const Deal<Element> deal(plan);
  std::byte* const memory = shared_memory();
  auto* const table = reinterpret_cast<Element*>(memory);
  for (std::uint32_t i = threadIdx.x; i < 3 * 256; i += kWarps * kLanes) {
    table[i] = static_cast<Element>(plan.table[i / 256][i % 256]);
  }
  __syncthreads();
  const std::uint32_t warp = threadIdx.x / kLanes;
  const std::uint32_t strip = blockIdx.x * kWarps + warp;
  const std::uint32_t sample = strip / deal.strips();
  if (sample >= launch.batch.size) return;
  const auto place = static_cast<std::int32_t>(strip % deal.strips());
  std::byte* const mixed = memory + deal.table_bytes + deal.warp_bytes() * warp;
  const auto render = [&](auto pairs) {
    StripRenderer<Element, kOutput, decltype(pairs)::value, kChanged>(
        plan, launch, sample, place % deal.strips_across * LanePixels<Element>::kWidth,
        place / deal.strips_across * kStripRows, table, reinterpret_cast<std::uint8_t*>(mixed),
        reinterpret_cast<std::uint32_t*>(mixed + deal.mixed_bytes))
        .render();
  };
  if constexpr (kFew) {
    const std::int32_t width = tables_of(plan, launch.scratch, sample).view->region.width();
    if (resampling_axis(width, plan.view.width).taps <= 2) {
      render(std::integral_constant<std::int32_t, 1>());
    } else {
      render(std::integral_constant<std::int32_t, 2>());
    }
  } else {
    render(std::integral_constant<std::int32_t, 0>());
  }
}

// A kernel of those above, by the types that are its arguments.
template <typename E, Output kTo, bool kIsFew, bool kIsChanged>
struct RenderKernel {
  using Element = E;
  static constexpr Output kOutput = kTo;
  static constexpr bool kFew = kIsFew;
  static constexpr bool kChanged = kIsChanged;
};

// Calls `use` with the RenderKernel that a plan takes.
template <typename Element, bool kChanged, class Use>
auto with_kernel_of(const RenderPlan& plan, const Use& use) {
  const bool few = plan.canvas.width <= 2 * std::int64_t{plan.view.width} &&
                   plan.canvas.height <= 2 * std::int64_t{plan.view.height};
  if (plan.view.width % LanePixels<Element>::kPixels != 0) {
    return use(RenderKernel<Element, Output::single, false, kChanged>());
  }
  if (plan.layout == Layout::nchw) {
    return few ? use(RenderKernel<Element, Output::planes, true, kChanged>())
               : use(RenderKernel<Element, Output::planes, false, kChanged>());
  }
  return few ? use(RenderKernel<Element, Output::pixels, true, kChanged>())
             : use(RenderKernel<Element, Output::pixels, false, kChanged>());
}
template <bool kChanged, class Use>
auto with_kernel_that(const RenderPlan& plan, const Use& use) {
  switch (size_of(plan.dtype)) {
    case 4: return with_kernel_of<std::uint32_t, kChanged>(plan, use);
    case 2: return with_kernel_of<std::uint16_t, kChanged>(plan, use);
    default: return with_kernel_of<std::uint8_t, kChanged>(plan, use);
  }
}
template <class Use>
auto with_kernel(const RenderPlan& plan, const Use& use) {
  return plan.pixels.any() ? with_kernel_that<true>(plan, use) : with_kernel_that<false>(plan, use);
}

}  // namespace forebay::cuda
