// Memory on the GPU and pinned memory of the host. Both are taken and given back on a thread of
// their own, where the device's GPU is current. Pinned memory is asked for on the NUMA node next to
// the GPU, by the policy of that thread, and written to at once, so that its pages are there before
// the first copy. GPU memory is zeroed: a batch's padding must not show what another program left.

#include "memory.hpp"

#include <cuda_runtime_api.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "cuda_error.hpp"
#include "gpu_context.hpp"

namespace forebay::cuda {
namespace {

constexpr std::size_t kAlignment = 4096;

using Free = cudaError_t (*)(void*);

// CUDA promises 256 bytes of alignment; the rest is taken from the front.
class CudaArena final : public device::Arena {
 public:
  CudaArena(int gpu, void* memory, std::size_t bytes, Free free, std::string description)
      : gpu_(gpu), memory_(memory), bytes_(bytes), free_(free), description_(std::move(description)) {}
  ~CudaArena() override {
    // At the end of a process CUDA may be gone before this is, and its memory with it.
    try {
      on_own_thread(gpu_, [this] { static_cast<void>(free_(memory_)); });
    } catch (const std::exception&) {
      static_cast<void>(free_(memory_));
    }
  }
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() noexcept override {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_);
    const std::size_t skipped = (address + kAlignment - 1) / kAlignment * kAlignment - address;
    return {static_cast<std::byte*>(memory_) + skipped, bytes_};
  }
  [[nodiscard]] std::string_view describe() const noexcept override { return description_; }

 private:
  int gpu_;
  void* memory_;
  std::size_t bytes_;
  Free free_;
  std::string description_;
};

std::string mib(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

// A stream for the time of one call: the default stream would wait for the trainer's.
void zero(void* memory, std::size_t bytes) {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), "cudaStreamCreateWithPriority");
  cudaError_t status = cudaMemsetAsync(memory, 0, bytes, stream);
  if (status == cudaSuccess) status = cudaStreamSynchronize(stream);
  static_cast<void>(cudaStreamDestroy(stream));
  require(status, "cudaMemsetAsync");
}

[[noreturn]] void refuse_on_gpu(cudaError_t status, std::size_t bytes) {
  static_cast<void>(cudaGetLastError());
  std::string room;
  std::size_t free = 0;
  std::size_t total = 0;
  if (status == cudaErrorMemoryAllocation && cudaMemGetInfo(&free, &total) == cudaSuccess) {
    room = " (" + mib(free) + " of its " + mib(total) + " are free)";
  }
  throw device::DeviceError("cannot take " + mib(bytes) + " of the GPU for the ring" + room + ": " +
                            explain(status, "cudaMalloc"));
}

[[noreturn]] void refuse_pinned(cudaError_t status, std::size_t bytes) {
  static_cast<void>(cudaGetLastError());
  throw device::DeviceError(
      "cannot pin " + mib(bytes) + " of host memory for copies to the GPU: " +
      (status == cudaErrorMemoryAllocation
           ? "cudaHostAlloc finds no room; lower queue.capacity, dataset.batch_size or transform.size, or raise "
             "the container's limit of memory"
           : explain(status, "cudaHostAlloc")));
}

}  // namespace

std::unique_ptr<device::Arena> allocate_on_gpu(int gpu, std::size_t bytes) {
  std::unique_ptr<device::Arena> arena;
  on_own_thread(gpu, [&] {
    void* memory = nullptr;
    const std::size_t taken = bytes + kAlignment;
    if (const cudaError_t status = cudaMalloc(&memory, taken); status != cudaSuccess) refuse_on_gpu(status, bytes);
    arena = std::make_unique<CudaArena>(gpu, memory, bytes, cudaFree, "GPU memory");
    zero(memory, taken);
  });
  return arena;
}

std::unique_ptr<device::Arena> allocate_pinned(int gpu, int numa_node, std::size_t bytes) {
  std::unique_ptr<device::Arena> arena;
  on_own_thread(gpu, [&] {
    std::string description = "pinned host memory";
    if (numa_node >= 0) {
      const std::string refusal = prefer_numa_node(numa_node);
      description += refusal.empty() ? " on NUMA node " + std::to_string(numa_node)
                                     : ", NUMA node " + std::to_string(numa_node) + " not asked for (" + refusal + ")";
    }
    void* memory = nullptr;
    const std::size_t taken = bytes + kAlignment;
    const cudaError_t status = cudaHostAlloc(&memory, taken, cudaHostAllocDefault);
    if (status != cudaSuccess) refuse_pinned(status, bytes);
    arena = std::make_unique<CudaArena>(gpu, memory, bytes, cudaFreeHost, std::move(description));
    std::memset(memory, 0, taken);
  });
  return arena;
}

std::string pci_address_of(int gpu) {
  std::array<char, 32> text{};
  if (cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), gpu) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return "";
  }
  return lower_case(text.data());
}

int numa_node_of_pci(std::string_view pci_address, const std::string& sysfs) {
  int node = -1;
  std::ifstream in(sysfs + "/bus/pci/devices/" + lower_case(pci_address) + "/numa_node");
  return in >> node ? node : -1;
}

int numa_node_of(int gpu) {
#if CUDART_VERSION >= 12020
  int node = -1;
  if (cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, gpu) == cudaSuccess && node >= 0) return node;
  static_cast<void>(cudaGetLastError());
#endif
  return numa_node_of_pci(pci_address_of(gpu));
}

// Preferred, not bound: a node that is full must not fail the run.
std::string prefer_numa_node(int node) {
  constexpr int kWordBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, 16> nodes{};  // 1024, as many as Linux knows
  if (node < 0 || node >= kWordBits * static_cast<int>(nodes.size())) return "no such NUMA node";
  nodes[static_cast<std::size_t>(node / kWordBits)] = 1UL << (node % kWordBits);
  // The kernel leaves out the last bit of the length it is given.
  const unsigned long bits = kWordBits * nodes.size() + 1;
  if (::syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), bits) == 0) return "";
  return std::strerror(errno);
}

}  // namespace forebay::cuda
