#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.hpp"
#include "gpu_context.hpp"
#include "make/canvas.hpp"
#include "render_kernels.hpp"

namespace forebay::cuda {

// Renders canvases with the kernels of render_kernels.hpp, on whatever stream of the GPU it is told, whatever GPU is
// current on the calling thread. Device and context must outlive it.
class CudaRenderer final : public make::CanvasRenderer {
 public:
  // Renders one pixel of nothing first: kernels are loaded when they are first used, which may wait for the whole GPU,
  // and a GPU for which there are none is found out now. Throws Error.
  CudaRenderer(device::Device& device, const GpuContext& context, int gpu, const make::RenderPlan& plan,
               std::uint32_t places);

  void draw(const make::RenderBatch& batch, std::uint32_t place, StreamView stream) override;
  void render(const make::RenderBatch& batch, std::byte* out, StreamView stream) override;

 private:
  [[nodiscard]] RenderLaunch launch_of(const make::RenderBatch& batch, std::uint32_t place,
                                       std::byte* out = nullptr) const noexcept;

  device::Device& device_;
  const GpuContext& context_;
  make::RenderPlan plan_;
  std::size_t place_bytes_;
  std::unique_ptr<device::Arena> places_;  // those of draw(), and behind them one for whoever did without
  device::DeviceEvent rendered_;           // the last place is free: recorded after every rendering from it
  device::DeviceEvent refused_;            // of nothing: recording it refuses a stream of another GPU
  std::uint32_t last_place_;
  bool used_ = false;
};

}  // namespace forebay::cuda
