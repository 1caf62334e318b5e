// The fake CUDA runtime for tests in Python, which call it through ctypes, in an extension module
// linked with it.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "fake_cuda.hpp"
#include "fake_cuda_runtime.hpp"

namespace {

// The bytes that a kernel found in memory of the GPU.
struct Look {
  std::unique_ptr<std::byte[]> bytes;
  std::atomic<bool> is_done{false};
};

std::unique_ptr<forebay::testing::FakeCuda> machine;
std::deque<Look> looks;

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void fake_gpu_begin(int gpus, std::uint64_t seed) {
  machine = std::make_unique<forebay::testing::FakeCuda>(forebay::testing::FakeMachine{.gpus = gpus, .seed = seed});
}

void fake_gpu_end() { machine.reset(); }

void fake_gpu_set_current(int gpu) { static_cast<void>(cudaSetDevice(gpu)); }

void* fake_gpu_stream() {
  cudaStream_t stream = nullptr;
  static_cast<void>(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  return stream;
}

// 0: not a stream, or already destroyed.
int fake_gpu_destroy(void* stream) {
  return cudaStreamDestroy(static_cast<cudaStream_t>(stream)) == cudaSuccess ? 1 : 0;
}

// Queues a kernel that copies the bytes there; returns its number, or -1 if stream or memory are
// invalid.
std::int64_t fake_gpu_look(void* stream, const void* address, std::size_t bytes) {
  const std::byte* const from = forebay::testing::behind(address, bytes);
  if (from == nullptr) return -1;
  Look& look = looks.emplace_back();
  look.bytes = std::make_unique<std::byte[]>(bytes);
  const auto kernel = [&look, from, bytes] {
    std::copy_n(from, bytes, look.bytes.get());
    look.is_done.store(true, std::memory_order_release);
  };
  if (forebay::testing::launch_on_host(kernel, stream) != cudaSuccess) return -1;
  return static_cast<std::int64_t>(looks.size()) - 1;
}

// Each call lets the GPU do some work.
int fake_gpu_is_done(std::int64_t look) {
  static_cast<void>(forebay::testing::running.load()->streams.step());
  return looks[static_cast<std::size_t>(look)].is_done.load(std::memory_order_acquire) ? 1 : 0;
}

const void* fake_gpu_found(std::int64_t look) { return looks[static_cast<std::size_t>(look)].bytes.get(); }

void fake_gpu_synchronize(void* stream) { static_cast<void>(cudaStreamSynchronize(static_cast<cudaStream_t>(stream))); }

std::size_t fake_gpu_misuse() { return machine->misuse().size(); }

}  // extern "C"
#pragma GCC visibility pop
