#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "checks.hpp"
#include "device/device_choice.hpp"
#include "measure.hpp"

// The CUDA runtime as the checks use it beside Forebay: plain calls, with errors as exceptions.
namespace forebay::gpu_check {

inline void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw Error(std::string(call) + " failed: " + cudaGetErrorString(status));
}

// The device of the setup, current on the calling thread.
inline std::unique_ptr<device::Device> open_device(const Setup& setup) {
  std::unique_ptr<device::Device> device = device::make_device(setup.device).device;
  device->enter_thread();
  return device;
}

struct FreeOnGpu {
  void operator()(std::byte* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
};
struct FreePinned {
  void operator()(std::byte* memory) const noexcept { static_cast<void>(cudaFreeHost(memory)); }
};
using GpuMemory = std::unique_ptr<std::byte, FreeOnGpu>;
using PinnedMemory = std::unique_ptr<std::byte, FreePinned>;

inline GpuMemory gpu_memory(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes), "cudaMalloc");
  return GpuMemory(static_cast<std::byte*>(memory));
}

inline PinnedMemory pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  return PinnedMemory(static_cast<std::byte*>(memory));
}

// A stream as a careful trainer makes it.
class TrainerStream {
 public:
  TrainerStream() {
    require(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), "cudaStreamCreateWithPriority");
  }
  ~TrainerStream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  TrainerStream(const TrainerStream&) = delete;
  TrainerStream& operator=(const TrainerStream&) = delete;

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }
  [[nodiscard]] StreamView view() const noexcept { return {stream_}; }
  void synchronize() const { require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// Something for a GPU to do.
struct GpuWork {
  cudaStream_t stream = nullptr;
  std::function<void()> enqueue;  // puts it on the stream, once
};

struct Rounds {
  int timed = 40;
  int repeats = 10;  // in each round, one right after the other
};

// Milliseconds that the GPU takes for each of the works, one figure each, in rounds that alternate. The GPU is kept
// busy until the work is on the stream, so that what the host takes to put it there does not count, however many
// launches it is made of. Throws Error.
[[nodiscard]] std::vector<bench::Figure> gpu_times_ms(const std::vector<GpuWork>& works, const Rounds& rounds);

}  // namespace forebay::gpu_check
