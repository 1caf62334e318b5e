#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "render_device.cuh"

namespace forebay::cuda {

__device__ std::byte* shared_memory() noexcept {
  extern __shared__ uint4 memory[];
  return reinterpret_cast<std::byte*>(memory);
}

}  // namespace forebay::cuda

extern "C" {

int forebay_draw_views(const forebay::cuda::RenderLaunch& launch, void* stream) noexcept {
  using namespace forebay::cuda;
  if (launch.batch.size == 0) return cudaSuccess;
  draw_views<<<launch.batch.size, kDrawThreads, 0, static_cast<cudaStream_t>(stream)>>>(launch.device_plan,
                                                                                        launch.batch, launch.scratch);
  return cudaGetLastError();
}

int forebay_render_views(const forebay::cuda::RenderLaunch& launch, void* stream) noexcept {
  using namespace forebay::cuda;
  if (launch.batch.size == 0) return cudaSuccess;
  return with_kernel(*launch.plan, [&](auto kernel) {
    using Kernel = decltype(kernel);
    const Deal<typename Kernel::Element> deal(*launch.plan);
    render_views<typename Kernel::Element, Kernel::kOutput, Kernel::kFew>
        <<<deal.blocks(launch.batch.size), kWarps * kLanes, deal.shared_bytes(), static_cast<cudaStream_t>(stream)>>>(
            launch);
    return static_cast<int>(cudaGetLastError());
  });
}

}  // extern "C"
