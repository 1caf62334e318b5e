#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checks.hpp"
#include "device/cuda/memory.hpp"
#include "gpu.hpp"

using namespace forebay::device;

namespace forebay::gpu_check {
namespace {

constexpr std::size_t kPages = 16;

std::string words_of(int error) {
  // A driver may map memory that is not made of pages as Linux keeps account of them.
  if (error == EFAULT) return "the driver maps it past Linux's own account of pages";
  return std::strerror(error);
}

}  // namespace

std::string PagePlaces::text() const {
  std::size_t looked_at = 0;
  for (const auto& [node, count] : pages) looked_at += count;
  std::string text;
  for (const auto& [node, count] : pages) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " of " + std::to_string(looked_at) +
            " pages looked at lie on node " + std::to_string(node);
  }
  if (refusal.empty()) return text;
  return text + (text.empty() ? "" : "; ") + "where its pages lie cannot be asked (" + refusal + ")";
}

PagePlaces places_of_pages(std::span<const std::byte> memory) {
  PagePlaces places;
  for (std::size_t i = 0; i < kPages && !memory.empty(); ++i) {
    const std::byte* const byte = &memory[memory.size() / kPages * i];
    int node = -1;
    if (::syscall(SYS_get_mempolicy, &node, nullptr, 0, byte, MPOL_F_NODE | MPOL_F_ADDR) == 0) {
      ++places.pages[node];
    } else {
      places.refusal = words_of(errno);
    }
  }
  return places;
}

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
