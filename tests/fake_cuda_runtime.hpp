#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fake_cuda.hpp"
#include "simulated_streams.hpp"

// Internals of the fake runtime, shared by the interface for tests (fake_cuda.cpp) and the one for
// the backend (fake_cudart.cpp).
namespace forebay::testing {

// Memory of GPUs that do not exist. Its addresses are not accessible: a host access crashes, as on
// a real GPU. The bytes are mapped at another address, which only the fake runtime knows. Any
// thread.
class FakeGpuMemory {
 public:
  explicit FakeGpuMemory(std::size_t total) : total_(total) {}
  ~FakeGpuMemory();
  FakeGpuMemory(const FakeGpuMemory&) = delete;
  FakeGpuMemory& operator=(const FakeGpuMemory&) = delete;

  // Null if there is not enough left. Filled with bytes that nobody should rely on.
  [[nodiscard]] void* allocate(std::size_t bytes);
  // False if there is no such allocation.
  bool free(void* address);
  // The host address of the bytes at `address`; null unless all of them are within one allocation.
  [[nodiscard]] std::byte* behind(const void* address, std::size_t bytes) const;
  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  [[nodiscard]] std::size_t left() const;

 private:
  struct Allocation {
    std::size_t bytes;
    std::byte* behind;
  };

  std::size_t total_;
  mutable std::mutex lock_;
  std::map<const std::byte*, Allocation> allocations_;
};

struct FakeStream {
  int gpu;
  int priority;
  SimulatedStreams::Stream stream;
  SimulatedStreams::Event end;  // for cudaStreamSynchronize()
  std::atomic<bool> alive{true};
  // While a graph is captured: the result of cudaStreamEndCapture().
  std::atomic<bool> captures{false};
  std::atomic<cudaError_t> spoilt{cudaSuccess};
};

struct FakeEvent {
  int gpu;
  SimulatedStreams::Event event;
  std::atomic<bool> recorded{false};
  std::atomic<FakeStream*> captured{nullptr};  // if last recorded while that stream was capturing
  std::atomic<bool> alive{true};
};

// State of the calling thread, as in the real runtime.
inline thread_local int current_gpu = 0;
inline thread_local bool has_context = false;  // a call by this thread has created a context on its GPU
inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

// The contexts below the current one: an entry for each that the thread has pushed.
struct FakeContext {
  int gpu;
  bool has_context;
};
inline thread_local std::vector<FakeContext> below;

// Null: there is no driver.
inline std::atomic<FakeCuda::Runtime*> running{nullptr};

struct FakeCuda::Runtime {
  explicit Runtime(const FakeMachine& pretended)
      : machine(pretended), memory(pretended.memory), streams(pretended.seed) {
    for (int gpu = 0; gpu < machine.gpus; ++gpu) defaults.push_back(add_stream(gpu));
  }
  ~Runtime() {
    for (const auto& [address, bytes] : pinned) std::free(const_cast<std::byte*>(address));
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  FakeStream* add_stream(int gpu, int priority = 0) {
    all_streams.push_back(std::make_unique<FakeStream>(gpu, priority, streams.make_stream(), streams.make_event()));
    return all_streams.back().get();
  }
  void note(const std::string& what) {
    const std::scoped_lock guard(lock);
    misuse.push_back(what);
  }
  bool is_pinned(const void* address, std::size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(address);
    const std::scoped_lock guard(lock);
    auto found = pinned.upper_bound(first);
    if (found == pinned.begin()) return false;
    --found;
    return first + bytes <= found->first + found->second;
  }
  // Null if it is not a stream, or was destroyed.
  FakeStream* stream_of(cudaStream_t handle) {
    const std::scoped_lock guard(lock);
    if (handle == nullptr || handle == cudaStreamLegacy) return defaults[static_cast<std::size_t>(current_gpu)];
    const auto found =
        std::ranges::find(all_streams, reinterpret_cast<FakeStream*>(handle), &std::unique_ptr<FakeStream>::get);
    return found != all_streams.end() && (*found)->alive ? found->get() : nullptr;
  }
  FakeEvent* event_of(cudaEvent_t handle) {
    const std::scoped_lock guard(lock);
    const auto found =
        std::ranges::find(all_events, reinterpret_cast<FakeEvent*>(handle), &std::unique_ptr<FakeEvent>::get);
    return found != all_events.end() && (*found)->alive ? found->get() : nullptr;
  }
  void drain(FakeStream& stream) {
    streams.record(stream.end, stream.stream);
    streams.synchronize(stream.end);
  }
  // Waits for all streams, as freeing memory does.
  void drain_all() {
    std::vector<FakeStream*> all;
    {
      const std::scoped_lock guard(lock);
      for (const auto& stream : all_streams) all.push_back(stream.get());
    }
    for (FakeStream* const stream : all) drain(*stream);
  }

  const FakeMachine machine;
  FakeGpuMemory memory;
  SimulatedStreams streams;
  std::atomic<int> launches{0};
  std::mutex lock;  // guards what follows
  std::vector<FakeStream*> defaults;
  std::vector<std::unique_ptr<FakeStream>> all_streams;
  std::vector<std::unique_ptr<FakeEvent>> all_events;
  std::map<const std::byte*, std::size_t> pinned;
  std::map<std::string, cudaError_t> failing;
  std::set<int> started;
  std::vector<std::string> misuse;
};

inline cudaError_t keep(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

// Returns the failure that a test requested, or that of a machine without a usable GPU; otherwise
// does the work.
template <typename Work>
cudaError_t answer(const char* call, Work&& work) {
  FakeCuda::Runtime* const runtime = running;
  if (runtime == nullptr || runtime->machine.driver < CUDART_VERSION / 1000 * 1000)
    return keep(cudaErrorInsufficientDriver);
  {
    const std::scoped_lock guard(runtime->lock);
    if (const auto found = runtime->failing.find(call); found != runtime->failing.end()) {
      const cudaError_t status = found->second;
      runtime->failing.erase(found);
      return keep(status);
    }
  }
  if (runtime->machine.gpus == 0) return keep(cudaErrorNoDevice);
  return keep(work(*runtime));
}

// A call that creates a context on the thread's GPU if there is none yet.
template <typename Work>
cudaError_t answer_on_gpu(const char* call, Work&& work) {
  return answer(call, [&](FakeCuda::Runtime& runtime) {
    {
      const std::scoped_lock guard(runtime.lock);
      runtime.started.insert(current_gpu);
    }
    has_context = true;
    return work(runtime);
  });
}

inline bool is_gpu(const FakeCuda::Runtime& runtime, int gpu) { return gpu >= 0 && gpu < runtime.machine.gpus; }

}  // namespace forebay::testing
