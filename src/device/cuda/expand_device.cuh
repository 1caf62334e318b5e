#pragma once

// From coefficients to the pixels that a view is cut out of, on a GPU. What they are stands in make/held_math.hpp,
// which the host compiles too. Eight threads make a block of an image: each takes an octet of its coefficients, then a
// column, then a row.

#include <cstddef>
#include <cstdint>

#include "drawn_views.cuh"
#include "make/held_math.hpp"
#include "render_kernels.hpp"

namespace forebay::cuda {

constexpr std::int32_t kTransformThreads = 8 * kGroupBlocks;
constexpr std::int32_t kColourThreads = 256;
constexpr std::int32_t kColourBlocks = 48;  // of threads, for each sample

// Rows of eight numbers with one of nothing: so neither columns nor rows of the blocks of a warp meet in a bank.
constexpr std::int32_t kRowStep = 9;
constexpr std::int32_t kBlockStep = 8 * kRowStep;

__device__ inline const std::uint8_t* place_of(const RenderLaunch& launch, std::uint32_t sample) noexcept {
  return reinterpret_cast<const std::uint8_t*>(launch.batch.canvases) +
         launch.device_plan->canvas.place_bytes() * sample;
}

// A group of blocks that a view needs some of.
struct NeededGroup {
  std::size_t component = 0;
  std::int32_t row = 0;     // of blocks
  std::int32_t column = 0;  // the first block
  std::int32_t left = 0;    // columns of blocks that are needed
  std::int32_t right = 0;
  bool is_needed = false;
};

__device__ inline NeededGroup find_group(const HeldJpeg& held, const McuRegion& needs, std::int32_t number) noexcept {
  NeededGroup group;
  while (group.component < held.frame.components && number >= held.component[group.component].groups()) {
    number -= held.component[group.component].groups();
    ++group.component;
  }
  if (group.component == held.frame.components) return group;
  const JpegComponent& part = held.frame.component[group.component];
  const std::int32_t across = held.component[group.component].groups_across();
  group.row = number / across;
  group.column = number % across * kGroupBlocks;
  group.left = (needs.left - held.mcus.left) * part.h;
  group.right = (needs.right - held.mcus.left) * part.h;
  group.is_needed = group.row >= (needs.top - held.mcus.top) * part.v &&
                    group.row < (needs.bottom - held.mcus.top) * part.v && group.column < group.right &&
                    group.column + kGroupBlocks > group.left;
  return group;
}

// A block of threads for each group that a sample can have: makes the samples of those that its view needs.
__global__ void __launch_bounds__(kTransformThreads) transform_blocks(RenderLaunch launch) {
  __shared__ std::int32_t coefficients[kGroupBlocks * kBlockStep];
  const RenderPlan& plan = *launch.device_plan;
  const std::uint32_t groups = most_groups(plan);
  const std::uint32_t sample = launch.first + blockIdx.x / groups;
  const DrawnView& view = *tables_of(plan, launch.scratch, sample).view;
  if (view.form != CanvasForm::coefficients) return;
  const std::uint8_t* const place = place_of(launch, sample);
  const auto& held = *reinterpret_cast<const HeldJpeg*>(place);
  const NeededGroup group = find_group(held, view.needs, static_cast<std::int32_t>(blockIdx.x % groups));
  if (!group.is_needed) return;

  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t column = group.column + thread / 8;
  const std::int32_t part = thread % 8;
  const HeldComponent& component = held.component[group.component];
  const auto& quantiser = held.frame.component[group.component].quantiser;
  const bool is_needed = column >= group.left && column < group.right;
  std::int32_t* const block = coefficients + thread / 8 * kBlockStep;
  for (std::int32_t i = 0; i < 8; ++i) block[kRowStep * part + i] = 0;
  __syncwarp();
  if (is_needed) {
    const std::uint8_t* const record = place + record_at(place, component, group.row, column);
    if (part == 0) block[0] = first_coefficient(record) * quantiser[0];
    for_each_value(record, part, [&](std::size_t at, std::int32_t value) {
      block[at / 8 * kRowStep + at % 8] = value * quantiser[at];
    });
  }
  __syncwarp();
  inverse_dct_line(block + part, kRowStep, kColumnShift);
  __syncwarp();
  std::int32_t* const line = block + kRowStep * part;
  inverse_dct_line(line, 1, kRowShift);
  if (!is_needed) return;
  std::uint32_t words[2] = {};
#pragma unroll
  for (std::int32_t i = 0; i < 8; ++i) {
    words[i / 4] |= std::uint32_t{jpeg_sample(line[i])} << (8 * static_cast<std::uint32_t>(i % 4));
  }
  std::uint8_t* const to = expanded_of(plan, launch.scratch, sample).planes + planes_before(held, group.component) +
                           static_cast<std::size_t>(8 * group.row + part) * plane_stride(component) +
                           8 * static_cast<std::size_t>(column);
  *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
}

// kColourBlocks blocks of threads for each sample: make the pixels of its view, four at a time, of its samples.
__global__ void __launch_bounds__(kColourThreads) colour_pixels(RenderLaunch launch) {
  const RenderPlan& plan = *launch.device_plan;
  const std::uint32_t sample = launch.first + blockIdx.x / kColourBlocks;
  const DrawnView& view = *tables_of(plan, launch.scratch, sample).view;
  if (view.form != CanvasForm::coefficients) return;
  const auto& held = *reinterpret_cast<const HeldJpeg*>(place_of(launch, sample));
  const Expanded memory = expanded_of(plan, launch.scratch, sample);
  const std::int32_t width = view.region.width();
  const std::int32_t across = (width + 3) / 4;
  const std::int32_t all = across * view.region.height();
  const auto first = static_cast<std::int32_t>(blockIdx.x % kColourBlocks * kColourThreads + threadIdx.x);
  for (std::int32_t i = first; i < all; i += kColourBlocks * kColourThreads) {
    const std::int32_t x = i % across * 4;
    const std::int32_t y = i / across;
    const std::int32_t count = width - x < 4 ? width - x : 4;
    std::uint32_t words[4] = {};
#pragma unroll
    for (std::int32_t j = 0; j < 4; ++j) {
      if (j < count) words[j] = held_pixel(held, memory.planes, view.region.left + x + j, view.region.top + y);
    }
    auto* const to =
        reinterpret_cast<std::uint32_t*>(memory.pixels + view.row_bytes * static_cast<std::size_t>(y)) + 3 * (x / 4);
    to[0] = words[0] | words[1] << 24U;
    if (count > 1) to[1] = words[1] >> 8U | words[2] << 16U;
    if (count > 2) to[2] = words[2] >> 16U | words[3] << 8U;
  }
}

}  // namespace forebay::cuda
