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

// Of streams, as CUDA counts: the lower number goes first.
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

// What the fake runtime pretends that there is.
struct FakeMachine {
  int gpus = 1;
  int driver = 13000;             // the CUDA version it knows; 0 = none is loaded
  std::size_t memory = 64 << 20;  // of all GPUs together
  int numa_node = -1;             // on which the GPUs say they are
  std::uint64_t seed = 1;         // of the order in which streams get on
};

// The fake CUDA runtime (fake_cudart.cpp) is of such a machine while this lives, and of one without a driver while none
// does. What streams do is done in a random order that CUDA allows. One at a time.
class FakeCuda {
 public:
  explicit FakeCuda(const FakeMachine& machine = {});
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  // The next call of this name ("cudaMalloc") fails.
  void fail_next(const std::string& call, cudaError_t status);
  // GPUs on which CUDA was started, by a call on a thread where they were current.
  [[nodiscard]] std::set<int> started() const;
  // What works on a GPU and should not be done: copies from memory that is not pinned, events with timing, streams
  // that wait for the default stream.
  [[nodiscard]] std::vector<std::string> misuse() const;
  // Of a stream (a cudaStream_t) that exists.
  [[nodiscard]] int priority_of(void* stream) const;
  // Kernels that were put on streams.
  [[nodiscard]] int launches() const;
  // Streams and events that were made and not destroyed.
  [[nodiscard]] std::size_t streams_and_events() const;
  // Bytes of all GPUs that are not allocated.
  [[nodiscard]] std::size_t memory_left() const;

  struct Runtime;

 private:
  std::unique_ptr<Runtime> runtime_;
};

// Where the host may touch bytes of the fake GPU, for fake kernels; null when they are not in one allocation.
[[nodiscard]] std::byte* behind(const void* gpu_address, std::size_t bytes);

// Puts host code on a stream, as a kernel would be. `call`: its name for fail_next().
cudaError_t launch_on_host(std::function<void()> kernel, void* stream, const char* call = "launch");

}  // namespace forebay::testing
