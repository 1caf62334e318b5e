#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "render_device.cuh"

namespace forebay::cuda {

__device__ std::byte* shared_memory() noexcept {
  extern __shared__ uint4 memory[];
  return reinterpret_cast<std::byte*>(memory);
}

namespace {

template <typename Element>
int launch_render(const RenderLaunch& launch, void* stream) noexcept {
  const Deal<Element> deal(*launch.plan);
  render_views<Element>
      <<<deal.blocks(launch.batch.size), kWarps * kLanes, deal.shared_bytes(), static_cast<cudaStream_t>(stream)>>>(
          launch);
  return cudaGetLastError();
}

}  // namespace
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
  switch (forebay::size_of(launch.plan->dtype)) {
    case 4: return launch_render<std::uint32_t>(launch, stream);
    case 2: return launch_render<std::uint16_t>(launch, stream);
    default: return launch_render<std::uint8_t>(launch, stream);
  }
}

}  // extern "C"
