#include "device/cuda/memory.hpp"
#include "gpu.hpp"
#include "pages.hpp"

namespace forebay::gpu_check {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{16} << 20;

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
  // What it says of itself is what was asked for; Linux may have given something else.
  const std::unique_ptr<Arena> staging = device->allocate_staging(kStagingBytes);
  const PagePlaces places = places_of_pages(staging->bytes());
  const int node = cuda::numa_node_of(device->index());
  const bool is_far = node >= 0 && !places.pages.empty() && !places.all_on(node);
  return {.subject = "device",
          .found = device->describe() + "; driver " + version(driver) + ", runtime " + version(runtime) + "; " +
                   std::to_string(free >> 30) + " of " + std::to_string(total >> 30) +
                   " GiB free; staging: " + std::string(staging->describe()) + ": " + places.text(),
          .wanted = node >= 0 ? "staging on the GPU's node" : "",
          .verdict = is_far ? Verdict::missed : Verdict::fine};
}

}  // namespace forebay::gpu_check
