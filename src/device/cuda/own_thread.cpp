#include "own_thread.hpp"

#include <cuda_runtime_api.h>

#include <exception>

#include "base/thread.hpp"
#include "cuda_error.hpp"

namespace forebay::cuda {

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
