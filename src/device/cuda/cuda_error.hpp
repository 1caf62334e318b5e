#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace forebay::cuda {

// Throws DeviceError naming `call`, what CUDA says of it and what to do about it, unless `status` is cudaSuccess. What
// failed is taken back from the thread's last error, so that the trainer does not find it after a call of its own.
void require(cudaError_t status, const char* call);

// Its sentence.
[[nodiscard]] std::string explain(cudaError_t status, const char* call);

// "the NVIDIA driver knows CUDA 12.2 ...": why no GPU can be used when cudaGetDeviceCount returned `status`, and what
// to do.
[[nodiscard]] std::string why_no_gpu(cudaError_t status);

// "for CUDA 13, 580 or later": the drivers that this build runs with.
[[nodiscard]] std::string needed_driver();

// "13.0" of CUDA's 13000.
[[nodiscard]] std::string version_text(int version);

}  // namespace forebay::cuda
