// The calls of the CUDA driver that the backend makes, on the fake runtime.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

#include "device/cuda/render_kernels.hpp"
#include "fake_cuda_runtime.hpp"
#include "twin_renderer.hpp"

using namespace forebay::make;

namespace {

using namespace forebay::testing;
using Runtime = FakeCuda::Runtime;

// Calls of the driver neither set nor clear the error of cudaGetLastError().
template <typename Work>
CUresult answer_as_driver(const char* call, Work&& work) {
  const cudaError_t before = last_error;
  const cudaError_t status = answer(call, work);
  last_error = before;
  return static_cast<CUresult>(status);
}

CUcontext context_of(int gpu) { return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(gpu) + 1); }

CUresult get_current(CUcontext* context) {
  return answer_as_driver("cuCtxGetCurrent", [&](Runtime&) {
    *context = has_context ? context_of(current_gpu) : nullptr;
    return cudaSuccess;
  });
}

CUresult push_current(CUcontext context) {
  return answer_as_driver("cuCtxPushCurrent", [&](Runtime& runtime) {
    const int gpu = static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
    if (!is_gpu(runtime, gpu)) return cudaErrorDeviceUninitialized;
    below.push_back({.gpu = current_gpu, .has_context = has_context});
    current_gpu = gpu;
    has_context = true;
    return cudaSuccess;
  });
}

CUresult pop_current(CUcontext* context) {
  return answer_as_driver("cuCtxPopCurrent", [&](Runtime&) {
    if (below.empty()) return cudaErrorDeviceUninitialized;
    *context = context_of(current_gpu);
    current_gpu = below.back().gpu;
    has_context = below.back().has_context;
    below.pop_back();
    return cudaSuccess;
  });
}

CUresult get_gpu(CUdevice* gpu) {
  return answer_as_driver("cuCtxGetDevice", [&](Runtime&) {
    *gpu = current_gpu;
    return has_context ? cudaSuccess : cudaErrorDeviceUninitialized;
  });
}

CUresult query_event(CUevent event) {
  return answer_as_driver("cuEventQuery", [&](Runtime& runtime) {
    if (!has_context) return cudaErrorDeviceUninitialized;
    if (capture_mode != cudaStreamCaptureModeRelaxed)
      runtime.note("an event asked for where a capture would forbid it");
    FakeEvent* const what = runtime.event_of(event);
    if (what == nullptr) return cudaErrorInvalidResourceHandle;
    if (what->captured != nullptr) return cudaErrorCapturedEvent;
    return !what->recorded || runtime.streams.query(what->event) ? cudaSuccess : cudaErrorNotReady;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** address, unsigned int /*version*/,
                                             unsigned long long /*flags*/, cudaDriverEntryPointQueryResult* found) {
  return answer("cudaGetDriverEntryPointByVersion", [&](Runtime&) {
    const std::string_view name(symbol);
    *address = nullptr;
    if (name == "cuCtxGetCurrent") *address = reinterpret_cast<void*>(get_current);
    if (name == "cuCtxPushCurrent") *address = reinterpret_cast<void*>(push_current);
    if (name == "cuCtxPopCurrent") *address = reinterpret_cast<void*>(pop_current);
    if (name == "cuCtxGetDevice") *address = reinterpret_cast<void*>(get_gpu);
    if (name == "cuEventQuery") *address = reinterpret_cast<void*>(query_event);
    *found = *address == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** address, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
  return cudaGetDriverEntryPointByVersion(symbol, address, 0, flags, found);
}

}  // extern "C"

// The launch functions of the CUDA kernels: the work that they queue on a stream renders on the
// host, pixel by pixel.
namespace {

using forebay::cuda::RenderLaunch;
using forebay::make::RenderBatch;
using forebay::make::RenderPlan;

constexpr std::byte kDrawn{0x5D};

// Host addresses of a launch's arguments; null if the launch is invalid.
struct Found {
  RenderPlan plan;
  const std::byte* canvases;
  std::byte* scratch;
  std::byte* out;

  explicit Found(const RenderLaunch& launch)
      : plan(*launch.plan),
        canvases(behind(launch.batch.canvases, launch.plan->canvas.batch_bytes())),
        scratch(behind(launch.scratch, forebay::cuda::scratch_bytes(*launch.plan))),
        out(launch.out == nullptr ? nullptr : behind(launch.out, launch.batch.size * launch.plan->sample_bytes())) {}
  [[nodiscard]] bool is_complete() const { return canvases != nullptr && scratch != nullptr; }
};

}  // namespace

extern "C" {

int forebay_draw_views(const RenderLaunch& launch, void* stream) noexcept {
  if (launch.batch.size == 0) return cudaSuccess;
  const Found found(launch);
  if (!found.is_complete()) return cudaErrorIllegalAddress;
  // Instead of views, stores which batch and serving they are for.
  const RenderBatch batch = launch.batch;
  return forebay::testing::launch_on_host(
      [=] {
        found.scratch[0] = kDrawn;
        found.scratch[1] = static_cast<std::byte>(batch.use_index & 0xFF);
        found.scratch[2] = static_cast<std::byte>(batch.first_position & 0xFF);
      },
      stream, "launch of drawing");
}

int forebay_render_views(const RenderLaunch& launch, void* stream) noexcept {
  if (launch.batch.size == 0) return cudaSuccess;
  const Found found(launch);
  if (!found.is_complete() || found.out == nullptr) return cudaErrorIllegalAddress;
  RenderBatch batch = launch.batch;
  batch.canvases = found.canvases;
  return forebay::testing::launch_on_host(
      [=] {
        // Views of another serving, drawn too early or too late, would give wrong pixels.
        const bool is_ours = found.scratch[0] == kDrawn &&
                             found.scratch[1] == static_cast<std::byte>(batch.use_index & 0xFF) &&
                             found.scratch[2] == static_cast<std::byte>(batch.first_position & 0xFF);
        if (is_ours) TwinRenderer(found.plan).render(batch, found.out, {});
      },
      stream, "launch of rendering");
}

}  // extern "C"
