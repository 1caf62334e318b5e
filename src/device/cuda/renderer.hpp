#pragma once

#include <memory>

#include <forebay/detail/canvas.hpp>
#include <forebay/detail/device.hpp>

namespace forebay::cuda {

// Renders canvases with the kernels of render_kernels.hpp, on whatever stream it is told. The device must outlive it.
class CudaRenderer final : public CanvasRenderer {
 public:
  // Renders one pixel of nothing first: kernels are loaded when they are first used, which may wait for the whole GPU,
  // and a GPU for which there are none is found out now. Throws Error.
  CudaRenderer(Device& device, int gpu, const RenderPlan& plan);

  // The GPU must be current on the calling thread.
  void render(const RenderBatch& batch, std::byte* out, StreamView stream) override;

 private:
  Device& device_;
  RenderPlan plan_;
  std::unique_ptr<Arena> memory_;  // the plan, then scratch memory
  std::byte* scratch_;
  DeviceEvent rendered_;  // scratch memory is free: recorded after every rendering
  bool used_ = false;
};

}  // namespace forebay::cuda
