#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace forebay::testing {

// Priorities of streams, as CUDA counts them: the lower number goes first.
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

// The machine that the fake runtime simulates.
struct FakeMachine {
  int gpus = 1;
  int driver = 13000;             // the CUDA version it supports; 0 = no driver is loaded
  std::size_t memory = 64 << 20;  // bytes, of all GPUs together
  int numa_node = -1;             // NUMA node of the GPUs
  std::uint64_t seed = 1;         // determines the order in which streams act
};

// While an object exists, the fake CUDA runtime (fake_cudart.cpp) simulates this machine; otherwise
// one without a driver. Work on streams is done in a random order that CUDA allows. One object at a
// time.
class FakeCuda {
 public:
  explicit FakeCuda(const FakeMachine& machine = {});
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  // The next call of this name ("cudaMalloc") fails.
  void fail_next(const std::string& call, cudaError_t status);
  // GPUs on which a context was created, by a call from a thread where they were current.
  [[nodiscard]] std::set<int> started() const;
  // Uses that work on a GPU but should be avoided: copies from memory that is not pinned, events
  // with timing, streams that wait for the default stream.
  [[nodiscard]] std::vector<std::string> misuse() const;
  // The priority of an existing stream (a cudaStream_t).
  [[nodiscard]] int priority_of(void* stream) const;
  // How many kernels were launched.
  [[nodiscard]] int launches() const;
  // How many streams and events exist.
  [[nodiscard]] std::size_t streams_and_events() const;
  // Unallocated bytes of all GPUs.
  [[nodiscard]] std::size_t memory_left() const;

  struct Runtime;

 private:
  std::unique_ptr<Runtime> runtime_;
};

// The host address of bytes of the fake GPU, for fake kernels; null if they are not within one
// allocation.
[[nodiscard]] std::byte* behind(const void* gpu_address, std::size_t bytes);

// Queues host code on a stream, like a kernel. `call`: its name for fail_next().
cudaError_t launch_on_host(std::function<void()> kernel, void* stream, const char* call = "launch");

}  // namespace forebay::testing
