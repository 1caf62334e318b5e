#include "gpu_context.hpp"

#include <cuda_runtime_api.h>

#include <exception>
#include <string>

#include <forebay/error.hpp>

#include "base/thread.hpp"
#include "cuda_error.hpp"
#include "device/device.hpp"

namespace forebay::cuda {
namespace {

// The forms of these functions that every driver for CUDA 12 or later has.
constexpr unsigned kVersion = 12000;

// The driver's library is the runtime's to find: Forebay is not linked to it and starts where there is none.
// Through the runtime, by name and version: newer drivers have newer forms of a function under the
// same name.
template <typename Function>
void find(const char* name, Function*& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  require(cudaGetDriverEntryPointByVersion(name, &address, kVersion, cudaEnableLegacyStream, &found),
          "cudaGetDriverEntryPointByVersion");
#else
  static_cast<void>(kVersion);
  require(cudaGetDriverEntryPoint(name, &address, cudaEnableLegacyStream, &found), "cudaGetDriverEntryPoint");
#endif
  if (found != cudaDriverEntryPointSuccess || address == nullptr) {
    throw device::DeviceError(std::string("the NVIDIA driver has no ") + name + ": install a newer one");
  }
  // POSIX allows what C++ leaves to the implementation: an object's address that is a function's.
  function = reinterpret_cast<Function*>(address);
}

// The runtime's numbers are the driver's for all that these calls return.
void require_driver(CUresult status, const char* call) { require(static_cast<cudaError_t>(status), call); }

}  // namespace

GpuContext::GpuContext() {
  find("cuCtxGetCurrent", current_);
  find("cuCtxPushCurrent", push_);
  find("cuCtxPopCurrent", pop_);
  find("cuEventQuery", query_);
  require_driver(current_(&context_), "cuCtxGetCurrent");
  if (context_ == nullptr)
    throw device::DeviceError("cudaSetDevice() has started nothing on the GPU: install a newer CUDA driver");
}

bool GpuContext::is_beside_current() const {
  CUcontext current = nullptr;
  require_driver(current_(&current), "cuCtxGetCurrent");
  return current != nullptr && current != context_;
}

GpuContext::OnTop::OnTop(const GpuContext& context) : context_(context) {
  CUcontext current = nullptr;
  require_driver(context_.current_(&current), "cuCtxGetCurrent");
  if (current == context_.context_) return;
  require_driver(context_.push_(context_.context_), "cuCtxPushCurrent");
  is_pushed_ = true;
}

// Fails only where CUDA has ended meanwhile, and the thread's contexts with it.
GpuContext::OnTop::~OnTop() {
  if (!is_pushed_) return;
  CUcontext taken_off = nullptr;
  static_cast<void>(context_.pop_(&taken_off));
}

std::optional<unsigned> gpu_of_thread() {
  CUresult (*context_of_thread)(CUcontext*) = nullptr;
  CUresult (*gpu_of_context)(CUdevice*) = nullptr;
  find("cuCtxGetCurrent", context_of_thread);
  find("cuCtxGetDevice", gpu_of_context);
  CUcontext context = nullptr;
  CUdevice gpu = 0;
  if (context_of_thread(&context) != CUDA_SUCCESS || context == nullptr) return std::nullopt;
  if (gpu_of_context(&gpu) != CUDA_SUCCESS || gpu < 0) return std::nullopt;
  return static_cast<unsigned>(gpu);
}

// A thread for one piece of work: making a GPU current on the trainer's thread would change what
// the trainer's own calls do.
void on_own_thread(int gpu, const std::function<void()>& work) {
  std::exception_ptr thrown;
  start_thread("forebay-gpu", [&] {
    try {
      enter_gpu(gpu);
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

void enter_gpu(int gpu) {
  require(cudaSetDevice(gpu), "cudaSetDevice");
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  require(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
}

// The exchange fails only where CUDA works no more, and then the call inside says so.
RelaxedCapture::RelaxedCapture() noexcept {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
  before_ = mode;
}

RelaxedCapture::~RelaxedCapture() {
  auto mode = static_cast<cudaStreamCaptureMode>(before_);
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
}

}  // namespace forebay::cuda
