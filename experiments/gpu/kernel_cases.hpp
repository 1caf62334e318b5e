#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <forebay/options.hpp>

#include "make/canvas.hpp"

// What the kernels are checked with: cases that launch every one of them.
namespace forebay::gpu_check {

struct KernelCase {
  TransformOptions options;
  std::uint32_t batch_size = 1;         // of the slot
  std::uint32_t size = 1;               // samples that are rendered, fewer in a short batch
  std::uint64_t servings = 3;           // use_index 0, 1, ...
  std::vector<std::uint32_t> compared;  // samples
};

// `quick`: fewer, and small ones.
[[nodiscard]] std::vector<KernelCase> kernel_cases(bool quick);

// How many kernels there are: four types by two layouts, for few coefficients and for any number, with operations and
// without (device/cuda/render_device.cuh).
constexpr std::size_t kRenderKernels = 32;

// The one that renders a plan, in words. Says again what with_kernel() decides, which only a CUDA compiler can read;
// tests/canvas_kernel.cpp holds the two together.
[[nodiscard]] std::string kernel_of(const make::RenderPlan& plan);

}  // namespace forebay::gpu_check
