#include "cuda_error.hpp"

#include <cstdlib>

#include "device/device.hpp"

namespace forebay::cuda {
namespace {

// What to do about an error that has a usual cause, in the order of how often people meet them; ""
// for the others.
const char* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "the GPU is full: lower queue.capacity, queue.pool, dataset.batch_size or transform.size, choose a "
             "smaller "
             "transform.dtype, or give the GPU to fewer processes";
    case cudaErrorInitializationError:
      return "CUDA does not work in a child of fork() whose parent used it: start Forebay before forking, or use exec";
    case cudaErrorDevicesUnavailable: return "the GPU is in exclusive mode and another process has it: see nvidia-smi";
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
      return "a stream or an event belongs to another GPU or is no longer there: call cudaSetDevice() with the GPU of "
             "the "
             "feeder on the trainer's thread and make its stream there";
    case cudaErrorNoKernelImageForDevice:
      return "this build has no code for this GPU: configure it with -DFOREBAY_CUDA_ARCHITECTURES=... to match";
    case cudaErrorUnsupportedPtxVersion:
      return "the NVIDIA driver is too old to compile this build's kernels for this GPU: install a newer driver, or "
             "configure with -DFOREBAY_CUDA_ARCHITECTURES=... to match the GPU";
    case cudaErrorJitCompilerNotFound:
      return "the NVIDIA driver has no compiler (libnvidia-ptxjitcompiler) for this GPU, for which this build has no "
             "code: install the whole driver, or configure with -DFOREBAY_CUDA_ARCHITECTURES=... to match";
    case cudaErrorCompatNotSupportedOnDevice:
      return "the forward-compatibility package (cuda-compat) does not support this GPU: install a newer driver";
    case cudaErrorLaunchTimeout:
      return "a kernel took longer than the display's watchdog allows: use a GPU that drives no display";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
      return "a kernel that this process started before has failed, the trainer's or Forebay's: run it under "
             "compute-sanitizer to see which; nothing on the GPU works until the process is started again";
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError: return "the GPU reports damage: see nvidia-smi -q and dmesg, and use another";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread:
    case cudaErrorCapturedEvent:
      return "a CUDA graph is being captured: call next() and copy_to_host() (in Python batch.copy()) and end leases "
             "outside of the capture; in Python a lease ends with the last tensor that was made of its batch";
    case cudaErrorSystemNotReady: return "the machine's GPU services are not up (nvidia-fabricmanager)";
    case cudaErrorSystemDriverMismatch: return "the driver's parts do not fit together: reboot, or install it again";
    default: return "";
  }
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string needed_driver() {
  constexpr int kMajor = CUDART_VERSION / 1000;
  const char* const first = kMajor == 12 ? ", 525 or later" : kMajor == 13 ? ", 580 or later" : "";
  return "for CUDA " + std::to_string(kMajor) + first;
}

std::string explain(cudaError_t status, const char* call) {
  const std::string hint = advice(status);
  return std::string(call) + " failed: " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")" +
         (hint.empty() ? "" : "; " + hint);
}

// The runtime keeps an error until somebody asks: it is taken here, so that the trainer does not
// find Forebay's.
void require(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw device::DeviceError(explain(status, call));
}

std::string why_no_gpu(cudaError_t status) {
  static_cast<void>(cudaGetLastError());
  if (status == cudaErrorInsufficientDriver) {
    // CUDA reports a driver that is missing as one that is too old.
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
      return "no NVIDIA driver is loaded; where there is a GPU, install the driver or start the container with it "
             "(--gpus all)";
    }
    return "the NVIDIA driver is too old: it knows CUDA " + version_text(driver) + " and this build needs one " +
           needed_driver() + "; install a newer driver or build Forebay with an older CUDA toolkit";
  }
  if (status == cudaSuccess || status == cudaErrorNoDevice) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return "no GPU is visible to this process (CUDA_VISIBLE_DEVICES is " +
           (visible == nullptr ? "not set" : "\"" + std::string(visible) + "\"") + "); see what nvidia-smi lists";
  }
  return explain(status, "cudaGetDeviceCount");
}

}  // namespace forebay::cuda
