#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_function.hpp"

// A hash of a batch that the GPU and the host compute alike: every word is mixed with its place and all are added up,
// so the order of the threads does not matter.
namespace forebay::gpu_check {

[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint64_t word_hash(std::uint32_t word, std::uint64_t place) noexcept {
  std::uint64_t x = (place << 32 | word) + 0x9E3779B97F4A7C15ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return x ^ x >> 31;
}

[[nodiscard]] inline std::uint64_t batch_hash(const std::uint32_t* words, std::size_t count) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += word_hash(words[i], i);
  return sum;
}

}  // namespace forebay::gpu_check

// Kernels behind plain functions. They return a cudaError_t.
extern "C" {

// Puts on the stream: *sum += the hash of `count` words. All in memory of the GPU.
[[nodiscard]] int gpu_check_hash(const void* words, std::size_t count, std::uint64_t* sum, void* stream) noexcept;
// Puts on the stream a delay.
[[nodiscard]] int gpu_check_spin(std::uint64_t nanoseconds, void* stream) noexcept;

}  // extern "C"
