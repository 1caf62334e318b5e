#pragma once

#include <memory>
#include <string>

#include "device.hpp"

// What CUDA has for this process. Defined in cuda/gpus.cpp or, in a build without CUDA, in no_gpus.cpp.
namespace forebay {

struct Gpus {
  unsigned count = 0;   // that this process may use
  std::string why_not;  // when there are none: why, and what to do about it
  bool built = true;    // this build can use GPUs at all
};

// Never throws because of CUDA: a machine without a driver has no GPUs.
[[nodiscard]] Gpus find_gpus();

// Names a GPU, or the part of one that MIG gives to this process, everywhere in the same way.
// REQUIRES: number < find_gpus().count.
[[nodiscard]] std::string gpu_identity(unsigned number);

// REQUIRES: number < find_gpus().count. Throws Error when the GPU cannot be used.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(unsigned number);

}  // namespace forebay
