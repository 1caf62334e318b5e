// The launch functions of the CUDA kernels on the fake runtime: what they put on a stream renders on the host, one
// pixel after the other.
#include <cuda_runtime_api.h>

#include "device/cuda/render_kernels.hpp"
#include "fake_cuda.hpp"
#include "make/renderers.hpp"

namespace {

using forebay::RenderBatch;
using forebay::RenderPlan;
using forebay::cuda::RenderLaunch;
using forebay::testing::behind;

constexpr std::byte kDrawn{0x5D};

// Where the host finds what a launch names; null where the launch is wrong.
struct Found {
  RenderPlan plan;
  const std::byte* canvases;
  std::byte* scratch;
  std::byte* out;

  explicit Found(const RenderLaunch& launch)
      : plan(*launch.plan),
        canvases(behind(launch.batch.canvases, launch.plan->canvas.batch_bytes())),
        scratch(behind(launch.scratch, forebay::cuda::scratch_bytes(*launch.plan))),
        out(behind(launch.out, launch.batch.size * launch.plan->sample_bytes())) {}
  [[nodiscard]] bool is_complete() const { return canvases != nullptr && scratch != nullptr && out != nullptr; }
};

}  // namespace

extern "C" {

int forebay_draw_views(const RenderLaunch& launch, void* stream) noexcept {
  if (launch.batch.size == 0) return cudaSuccess;
  const Found found(launch);
  if (!found.is_complete()) return cudaErrorIllegalAddress;
  // Stands for the views: the serving that they are of.
  const std::uint64_t use = launch.batch.use_index;
  return forebay::testing::launch_on_host(
      [=] {
        found.scratch[0] = kDrawn;
        found.scratch[1] = static_cast<std::byte>(use & 0xFF);
      },
      stream);
}

int forebay_render_views(const RenderLaunch& launch, void* stream) noexcept {
  if (launch.batch.size == 0) return cudaSuccess;
  const Found found(launch);
  if (!found.is_complete()) return cudaErrorIllegalAddress;
  RenderBatch batch = launch.batch;
  batch.canvases = found.canvases;
  return forebay::testing::launch_on_host(
      [=] {
        // Views of another serving, drawn too early or too late, would give other pixels.
        const bool is_ours =
            found.scratch[0] == kDrawn && found.scratch[1] == static_cast<std::byte>(batch.use_index & 0xFF);
        if (is_ours) forebay::TwinRenderer(found.plan).render(batch, found.out, {});
      },
      stream);
}

}  // extern "C"
