// The kernels of the dequeue transform, run thread by thread on the host: their bytes must be the twin's, and nothing
// may be written or read beside their memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <forebay/detail/canvas_math.hpp>

#include "assemble/twin_renderer.hpp"
#include "canvas_support.hpp"
#include "cuda_on_host.hpp"

#include "device/cuda/render_device.cuh"

namespace forebay::cuda {

std::byte* shared_memory() noexcept { return testing::BlockOnHost::present()->shared(); }

namespace {

using testing::BlockOnHost;
using testing::CanvasSlot;
using testing::noise_image;
using Bytes = std::vector<std::byte>;

// Memory as the device's is: aligned, and ending where it ends.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) : memory_(bytes + kAlignment) {
    begin_ = (kAlignment - reinterpret_cast<std::uintptr_t>(memory_.data()) % kAlignment) % kAlignment;
    memory_.resize(begin_ + bytes);
  }
  [[nodiscard]] std::byte* data() { return memory_.data() + begin_; }
  [[nodiscard]] Bytes copy() const { return {memory_.begin() + static_cast<std::ptrdiff_t>(begin_), memory_.end()}; }

 private:
  static constexpr std::size_t kAlignment = 256;
  Bytes memory_;
  std::size_t begin_ = 0;
};

Bytes by_kernels(const RenderPlan& plan, const RenderBatch& batch, std::uint64_t seed) {
  DeviceBytes scratch(scratch_bytes(plan));
  std::fill_n(scratch.data(), scratch_bytes(plan), std::byte{0x5a});  // as an earlier batch leaves it
  DeviceBytes out(plan.sample_bytes() * batch.size);
  const RenderLaunch launch{
      .plan = &plan, .device_plan = &plan, .batch = batch, .scratch = scratch.data(), .out = out.data()};
  BlockOnHost drawing(kDrawThreads, 0, seed);
  for (std::uint32_t i = 0; i < batch.size; ++i) drawing.run(i, [&] { draw_views(&plan, batch, scratch.data()); });
  with_kernel(plan, [&](auto kernel) {
    using Kernel = decltype(kernel);
    const Deal<typename Kernel::Element> deal(plan);
    REQUIRE(deal.shared_bytes() <= 48U << 10U);
    BlockOnHost block(kWarps * kLanes, deal.shared_bytes(), seed);
    for (std::uint32_t i = 0; i < deal.blocks(batch.size); ++i) {
      block.run(i, [&] { render_views<typename Kernel::Element, Kernel::kOutput, Kernel::kFew>(launch); });
    }
  });
  return out.copy();
}

Bytes by_twin(const RenderPlan& plan, const RenderBatch& batch) {
  TwinRenderer twin(plan);
  Bytes out(plan.sample_bytes() * batch.size);
  twin.render(batch, out.data(), {});
  return out;
}

bool same(const TransformOptions& options, bool eval, Random& random) {
  const auto side = [&](std::int32_t most) {
    return 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(most)));
  };
  constexpr std::uint32_t kBatch = 2;
  CanvasSlot slot(options, kBatch);
  for (std::uint32_t i = 0; i < kBatch; ++i) slot.put(i, noise_image(side(400), side(400)));
  const RenderPlan plan = make_render_plan(options, 5, eval, kBatch);
  const RenderBatch batch = slot.batch(1, random.below(1000), random.below(4));
  return by_kernels(plan, batch, random.bits()) == by_twin(plan, batch);
}

TEST_CASE("the kernels' bytes are the twin's: every dtype and layout, widths that fill lanes and that do not") {
  const std::uint64_t seed = std::random_device{}();
  MESSAGE("seed " << seed);
  Random random(seed);
  for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8}) {
    for (const auto layout : {Layout::nchw, Layout::nhwc}) {
      for (const auto& size : {std::array<std::int64_t, 2>{17, 136}, {33, 61}, {5, 4}, {1, 1}}) {
        TransformOptions options;
        options.size = size;
        options.dtype = dtype;
        options.layout = layout;
        const std::string text = std::string(to_string(dtype)) + (layout == Layout::nchw ? " NCHW " : " NHWC ") +
                                 std::to_string(size[0]) + "x" + std::to_string(size[1]);
        CHECK_MESSAGE(same(options, false, random), text);
        CHECK_MESSAGE(same(options, true, random), text);
      }
    }
  }
}

TEST_CASE("the kernels' bytes are the twin's: sizes drawn, canvases up to 8 times as large") {
  const std::uint64_t seed = std::random_device{}();
  MESSAGE("seed " << seed);
  Random random(seed);
  const auto side = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most)));
  };
  for (int round = 0; round < 40; ++round) {
    TransformOptions options;
    options.size = {side(40), side(160)};
    options.canvas = {side(8 * options.size[0]), side(8 * options.size[1])};
    options.crop = round % 3 == 0 ? Crop::none : Crop::random_resized;
    options.dtype = static_cast<DType>(random.below(4));
    options.layout = static_cast<Layout>(random.below(2));
    const std::string text = "round " + std::to_string(round);
    CHECK_MESSAGE(same(options, false, random), text);
  }
}

TEST_CASE("windows cut off by a small canvas") {
  const std::uint64_t seed = std::random_device{}();
  MESSAGE("seed " << seed);
  Random random(seed);
  for (const auto& size : {std::array<std::int64_t, 2>{1, 8}, {8, 4}, {2, 4}}) {
    for (const auto& canvas : {std::array<std::int64_t, 2>{2, 8}, {2, 2}, {3, 3}, {1, 1}}) {
      TransformOptions options;
      options.size = size;
      options.canvas = canvas;
      options.crop = Crop::none;
      for (int round = 0; round < 3; ++round) CHECK(same(options, false, random));
    }
  }
}

}  // namespace
}  // namespace forebay::cuda
