#include "renderer.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "cuda_error.hpp"
#include "gpu_context.hpp"
#include "render_kernels.hpp"

namespace forebay::cuda {
namespace {

constexpr std::size_t kPlaceAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
}

static_assert(std::is_trivially_copyable_v<make::RenderPlan>, "kernels get it as it is");

void draw_views(const RenderLaunch& work, StreamView stream) {
  require(static_cast<cudaError_t>(forebay_draw_views(work, stream.handle)), "the kernel that draws views");
}
void render_views(const RenderLaunch& work, StreamView stream) {
  require(static_cast<cudaError_t>(forebay_render_views(work, stream.handle)), "the kernel that renders views");
}

// Renders a batch of one black pixel where nobody looks: a build without code for this GPU shows at
// the start and not at the first batch.
void try_out(device::Device& device, make::RenderPlan plan) {
  plan.canvas.batch_size = 1;
  plan.views = 1;
  const std::size_t scratch = aligned(scratch_bytes(plan));
  const std::size_t canvas = aligned(plan.canvas.batch_bytes());
  const std::unique_ptr<device::Arena> memory = device.allocate(scratch + canvas + plan.sample_bytes());
  std::byte* const at = memory->bytes().data();

  const make::CanvasInfo pixel{.width = 1, .height = 1, .canvas_width = 1, .canvas_height = 1};
  const std::unique_ptr<device::Arena> staged = device.allocate_staging(sizeof(pixel));
  std::memcpy(staged->bytes().data(), &pixel, sizeof(pixel));
  const StreamView stream = device.make_stream();
  const device::DeviceEvent rendered = device.make_event();
  device.copy_in(at + scratch + plan.canvas.infos_offset(), staged->bytes().data(), sizeof(pixel), stream);
  const RenderLaunch work{
      .plan = &plan, .batch = {.canvases = at + scratch, .size = 1}, .scratch = at, .out = at + scratch + canvas};
  draw_views(work, stream);
  render_views(work, stream);
  device.record(rendered, stream);
  device.synchronize(rendered);
}

}  // namespace

CudaRenderer::CudaRenderer(device::Device& device, const GpuContext& context, int gpu, const make::RenderPlan& plan,
                           std::uint32_t places)
    : device_(device),
      context_(context),
      plan_(plan),
      place_bytes_(aligned(scratch_bytes(plan))),
      rendered_(device.make_event()),
      refused_(device.make_event()),
      last_place_(places) {
  on_own_thread(gpu, [this] {
    try_out(device_, plan_);
    places_ = device_.allocate(place_bytes_ * (last_place_ + 1));
  });
}

// Nothing is waited for: whoever has a place drawn anew knows that nothing reads it any more, and
// that its batch will be rendered only when this is complete.
void CudaRenderer::draw(const make::RenderBatch& batch, std::uint32_t place, StreamView stream) {
  if (batch.size == 0) return;
  const GpuContext::OnTop here(context_);
  draw_views(launch_of(batch, place), stream);
}

// Kernels may run on the GPU that their stream belongs to, whichever that is, where this memory is another's. Events
// are recorded on their own GPU only, so a record before the first kernel refuses such a stream.
void CudaRenderer::render(const make::RenderBatch& batch, std::byte* out, StreamView stream) {
  if (batch.size == 0) return;
  const GpuContext::OnTop here(context_);
  if (batch.drawn_in) {
    device_.record(refused_, stream);
    render_views(launch_of(batch, *batch.drawn_in, out), stream);
    return;
  }
  // One place serves all of these. On the stream of the last rendering there is nothing to wait for, but streams cannot
  // be told by their handles, which are given out again.
  if (used_) device_.wait(stream, rendered_);
  device_.record(rendered_, stream);
  used_ = true;
  const RenderLaunch work = launch_of(batch, last_place_, out);
  draw_views(work, stream);
  render_views(work, stream);
  device_.record(rendered_, stream);
}

RenderLaunch CudaRenderer::launch_of(const make::RenderBatch& batch, std::uint32_t place,
                                     std::byte* out) const noexcept {
  return {.plan = &plan_, .batch = batch, .scratch = places_->bytes().data() + place_bytes_ * place, .out = out};
}

}  // namespace forebay::cuda
