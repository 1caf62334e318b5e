#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "render_device.cuh"

namespace forebay::cuda {

__device__ std::byte* shared_memory() noexcept {
  extern __shared__ uint4 memory[];
  return reinterpret_cast<std::byte*>(memory);
}

namespace {

// What the launch itself answers. cudaGetLastError() might be an older error of the thread, one of the trainer's, and
// would take it from where the trainer looks for it.
template <class... Parameters>
int put(void* stream, std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes,
        void (*kernel)(Parameters...), const std::type_identity_t<Parameters>&... arguments) noexcept {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace
}  // namespace forebay::cuda

extern "C" {

int forebay_draw_views(const forebay::cuda::RenderLaunch& launch, void* stream) noexcept {
  using namespace forebay::cuda;
  if (launch.batch.size == 0) return cudaSuccess;
  const auto kernel = is_narrow(*launch.plan) ? draw_views<std::int32_t> : draw_views<std::int64_t>;
  return put(stream, draw_blocks(launch.batch.size), kDrawThreads, 0, kernel, *launch.plan, ViewShape(*launch.plan),
             launch.batch, launch.scratch);
}

int forebay_render_views(const forebay::cuda::RenderLaunch& launch, void* stream) noexcept {
  using namespace forebay::cuda;
  if (launch.batch.size == 0) return cudaSuccess;
  return with_kernel(*launch.plan, [&](auto kernel) {
    using Kernel = decltype(kernel);
    const Deal deal(*launch.plan);
    return put(stream, deal.blocks(launch.batch.size), kWarps * kLanes, deal.shared_bytes(),
               render_views<Kernel::kDType, Kernel::kLayout, Kernel::kFew, Kernel::kChanged>, deal, launch.batch.size,
               launch.scratch, launch.out);
  });
}

}  // extern "C"
