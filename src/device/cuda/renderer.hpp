#pragma once

#include <memory>

#include "device/device.hpp"
#include "gpu_context.hpp"
#include "make/canvas.hpp"

namespace forebay::cuda {

// Renders canvases with the kernels of render_kernels.hpp, on whatever stream of the GPU it is told, whatever GPU is
// current on the calling thread. Device and context must outlive it.
class CudaRenderer final : public make::CanvasRenderer {
 public:
  // Renders one pixel of nothing first: kernels are loaded when they are first used, which may wait for the whole GPU,
  // and a GPU for which there are none is found out now. Throws Error.
  CudaRenderer(device::Device& device, const GpuContext& context, int gpu, const make::RenderPlan& plan);

  void render(const make::RenderBatch& batch, std::byte* out, StreamView stream) override;

 private:
  device::Device& device_;
  const GpuContext& context_;
  make::RenderPlan plan_;
  std::unique_ptr<device::Arena> scratch_;
  device::DeviceEvent rendered_;  // scratch memory is free: recorded after every rendering
  bool used_ = false;
};

}  // namespace forebay::cuda
