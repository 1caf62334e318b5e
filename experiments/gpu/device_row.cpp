#include "gpu.hpp"

namespace forebay::gpu_check {
namespace {

std::string version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

}  // namespace

Row device_row(const Setup& setup) {
  const std::unique_ptr<Device> device = open_device(setup);
  int driver = 0;
  int runtime = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  require(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {.subject = "device",
          .found = device->describe() + "; driver " + version(driver) + ", runtime " + version(runtime) + "; " +
                   std::to_string(free >> 30) + " of " + std::to_string(total >> 30) +
                   " GiB free; staging: " + std::string(device->allocate_staging(1)->describe()),
          .wanted = "",
          .verdict = Verdict::fine};
}

}  // namespace forebay::gpu_check
