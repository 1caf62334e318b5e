#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// What the trainer computes, in memory of the GPU: sums over all values of each channel. A trainer would have weights.
struct Statistics {
  double sum[3];
  double sum_of_squares[3];
  double count;  // values of each channel
  double steps;
};

// Puts a step's kernels on the stream, where a capture records them: the statistics of float32 images [samples, 3,
// pixels] are added to `total`.
cudaError_t put_step(const float* images, std::int64_t samples, std::int64_t pixels, Statistics* total,
                     cudaStream_t stream);
