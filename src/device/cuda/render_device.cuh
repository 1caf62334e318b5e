#pragma once

// The dequeue transform on a GPU. Views and coefficients stand in make/canvas_math.hpp, which the host compiles too, and
// what a pixel is in tests/twin_renderer.hpp; here is who computes which pixel, and what is kept so that nothing is
// computed twice.
//
// A warp makes a strip: kStripRows rows of kPixels times 32 pixels, so that each lane reads bytes beside its
// neighbour's, from different banks, and stores fill memory without gaps. In views that are enlarged downwards a lane
// goes down its strip with two rows of resampled pixels in registers, and each row is resampled once. In others the
// lanes first mix the rows that make a row of the strip, word by word into shared memory, and then resample from there.
// The rows of the canvas come through a ring in shared memory (incoming_rows.cuh), except where a pixel has more than
// three weights along an axis. Warps never wait for each other.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "strip_renderer.cuh"

namespace forebay::cuda {

// The block's memory whose size the launch says. Defined by whoever compiles this.
__device__ std::byte* shared_memory() noexcept;

// Of a multiprocessor: 7 blocks leave a thread 72 registers, 6 leave 80. Kernels that would spill have 6.
[[nodiscard]] constexpr unsigned blocks_at_once(Layout layout, bool few, bool changed) noexcept {
  return layout == Layout::nchw && few && !changed ? 7 : 6;
}

// A warp for each strip; those of a sample follow each other. kFew: no pixel has more than three coefficients
// along either axis, as with canvases up to 5/4 times as large as the result. kChanged: operations change the pixels;
// kernels of their own, so that the others keep their registers.
template <DType kDType, Layout kLayout, bool kFew, bool kChanged>
__global__ void __launch_bounds__(kWarps* kLanes, blocks_at_once(kLayout, kFew, kChanged))
    render_views(Deal deal, std::uint32_t samples, std::byte* scratch, std::byte* out) {
  const std::uint32_t warp = threadIdx.x / kLanes;
  const std::uint32_t number = blockIdx.x * kWarps + warp;
  const std::uint32_t sample = number / deal.strips;
  if (sample >= samples) return;
  const std::uint32_t place = number - sample * deal.strips;
  const std::uint32_t down = place / deal.strips_across;
  const Strip strip(deal.shape, deal.shape.tables(scratch, sample),
                    static_cast<std::int32_t>(place - down * deal.strips_across) * kStripWidth,
                    static_cast<std::int32_t>(down) * kStripRows);
  std::byte* const shared = shared_memory() + deal.warp_bytes * warp;
  const auto renderer = [&](auto taps) {
    return StripRenderer<kDType, kLayout, decltype(taps)::value, kChanged>(
        deal, strip, out + deal.sample_bytes * sample, shared + deal.ring_bytes);
  };
  const auto two = std::integral_constant<std::int32_t, 2>();
  const auto three = std::integral_constant<std::int32_t, 3>();
  if constexpr (kFew) {
    IncomingRows incoming = strip.incoming(shared);
    strip.across.taps <= 2 ? renderer(two).render(incoming) : renderer(three).render(incoming);
  } else {
    renderer(std::integral_constant<std::int32_t, 0>()).render();
  }
}

// A kernel of those above, by its arguments.
template <DType kOf, Layout kTo, bool kIsFew, bool kIsChanged>
struct RenderKernel {
  static constexpr DType kDType = kOf;
  static constexpr Layout kLayout = kTo;
  static constexpr bool kFew = kIsFew;
  static constexpr bool kChanged = kIsChanged;
};

// Calls `use` with the RenderKernel that a plan takes.
template <DType kDType, Layout kLayout, class Use>
auto with_kernel_of(const make::RenderPlan& plan, const Use& use) {
  const bool few = is_few(plan);
  if (plan.pixels.any()) {
    return few ? use(RenderKernel<kDType, kLayout, true, true>()) : use(RenderKernel<kDType, kLayout, false, true>());
  }
  return few ? use(RenderKernel<kDType, kLayout, true, false>()) : use(RenderKernel<kDType, kLayout, false, false>());
}
template <DType kDType, class Use>
auto with_kernel_of(const make::RenderPlan& plan, const Use& use) {
  return plan.layout == Layout::nchw ? with_kernel_of<kDType, Layout::nchw>(plan, use)
                                     : with_kernel_of<kDType, Layout::nhwc>(plan, use);
}
template <class Use>
auto with_kernel(const make::RenderPlan& plan, const Use& use) {
  switch (plan.dtype) {
    case DType::float32: return with_kernel_of<DType::float32>(plan, use);
    case DType::float16: return with_kernel_of<DType::float16>(plan, use);
    case DType::bfloat16: return with_kernel_of<DType::bfloat16>(plan, use);
    default: return with_kernel_of<DType::uint8>(plan, use);
  }
}

}  // namespace forebay::cuda
