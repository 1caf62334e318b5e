#include "batch_hash.hpp"

namespace forebay::gpu_check {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 512;

__global__ void hash_words(const std::uint32_t* words, std::size_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    mine += word_hash(words[i], i);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_down_sync(0xFFFFFFFFU, mine, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

__device__ std::uint64_t now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void spin(std::uint64_t nanoseconds) {
  const std::uint64_t end = now_ns() + nanoseconds;
  while (now_ns() < end) __nanosleep(200);
}

}  // namespace
}  // namespace forebay::gpu_check

extern "C" int gpu_check_hash(const void* words, std::size_t count, std::uint64_t* sum, void* stream) noexcept {
  using namespace forebay::gpu_check;
  hash_words<<<kBlocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const std::uint32_t*>(words), count, reinterpret_cast<unsigned long long*>(sum));
  return cudaGetLastError();
}

extern "C" int gpu_check_spin(std::uint64_t nanoseconds, void* stream) noexcept {
  forebay::gpu_check::spin<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(nanoseconds);
  return cudaGetLastError();
}
