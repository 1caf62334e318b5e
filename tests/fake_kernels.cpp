// The launch functions of the CUDA kernels, for tests without a CUDA compiler.
#include <cuda_runtime_api.h>

#include "device/cuda/render_kernels.hpp"

extern "C" {

int forebay_draw_views(const forebay::cuda::RenderLaunch& /*launch*/, void* /*stream*/) noexcept {
  return cudaErrorNotSupported;
}

int forebay_render_views(const forebay::cuda::RenderLaunch& /*launch*/, void* /*stream*/) noexcept {
  return cudaErrorNotSupported;
}

}  // extern "C"
