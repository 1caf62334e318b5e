#include "step.hpp"

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 64;  // for each channel

__device__ double sum_of_warp(double value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_down_sync(0xFFFFFFFFU, value, lanes);
  return value;
}

// Blocks [., c] add up channel c; each takes every kBlocks-th sample.
__global__ void add_channels(const float* images, std::int64_t samples, std::int64_t pixels, Statistics* total) {
  const unsigned channel = blockIdx.y;
  double sum = 0;
  double sum_of_squares = 0;
  for (std::int64_t sample = blockIdx.x; sample < samples; sample += gridDim.x) {
    const float* const plane = images + (3 * sample + channel) * pixels;
    for (std::int64_t i = threadIdx.x; i < pixels; i += blockDim.x) {
      const double value = plane[i];
      sum += value;
      sum_of_squares += value * value;
    }
  }
  sum = sum_of_warp(sum);
  sum_of_squares = sum_of_warp(sum_of_squares);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&total->sum[channel], sum);
    atomicAdd(&total->sum_of_squares[channel], sum_of_squares);
  }
}

__global__ void count_step(double values, Statistics* total) {
  total->count += values;
  total->steps += 1;
}

}  // namespace

cudaError_t put_step(const float* images, std::int64_t samples, std::int64_t pixels, Statistics* total,
                     cudaStream_t stream) {
  add_channels<<<dim3(kBlocks, 3), kThreads, 0, stream>>>(images, samples, pixels, total);
  count_step<<<1, 1, 0, stream>>>(static_cast<double>(samples * pixels), total);
  return cudaGetLastError();
}
