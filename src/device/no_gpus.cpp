#include <unistd.h>

#include <forebay/error.hpp>

#include "device_choice.hpp"

namespace forebay::device {

Gpus find_gpus() {
  return {
      .count = 0,
      .why_not = R"(this build has no CUDA backend: build it with nvcc (-DFOREBAY_CUDA=ON), or set device = "host")",
      .is_worth_saying = ::access("/proc/driver/nvidia/version", F_OK) == 0};
}

std::optional<unsigned> current_gpu() { return std::nullopt; }

std::string gpu_identity(unsigned /*number*/) { return ""; }

std::unique_ptr<Device> make_cuda_device(unsigned /*number*/) { throw ConfigError(find_gpus().why_not); }

}  // namespace forebay::device
