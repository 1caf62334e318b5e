#include "device/device_choice.hpp"

#include <cuda_runtime_api.h>

#include "base/text.hpp"
#include "cuda_device.hpp"
#include "cuda_error.hpp"
#include "gpu_context.hpp"

namespace forebay::device {

Gpus find_gpus() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return {.count = static_cast<unsigned>(count), .why_not = ""};
  return {.count = 0, .why_not = cuda::why_no_gpu(status)};
}

std::optional<unsigned> current_gpu() { return cuda::gpu_of_thread(); }

std::string gpu_identity(unsigned number) {
  cudaDeviceProp properties{};
  cuda::require(cudaGetDeviceProperties(&properties, static_cast<int>(number)), "cudaGetDeviceProperties");
  std::string identity = "GPU-";
  for (std::size_t i = 0; i < sizeof(properties.uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) identity += '-';
    identity += hex(static_cast<unsigned char>(properties.uuid.bytes[i]), 2);
  }
  return identity;
}

std::unique_ptr<Device> make_cuda_device(unsigned number) {
  return std::make_unique<cuda::CudaDevice>(static_cast<int>(number));
}

}  // namespace forebay::device
