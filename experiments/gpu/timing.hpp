#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "hot_path/measure.hpp"

namespace forebay::gpu_check {

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
