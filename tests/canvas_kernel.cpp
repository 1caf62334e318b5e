// The kernels of the dequeue transform, run thread by thread on the host: their bytes must equal
// the twin's, and no memory outside of theirs may be accessed.
#include <random>
#include <typeindex>

#include "canvas_support.hpp"
#include "cuda_on_host.hpp"
#include "device/cuda/render_device.cuh"
#include "gpu/kernel_cases.hpp"
#include "make/canvas_math.hpp"
#include "test.hpp"

using namespace forebay::make;

namespace forebay::cuda {

std::byte* shared_memory() noexcept { return testing::BlockOnHost::present()->shared(); }

namespace {

using namespace testing;
using Bytes = std::vector<std::byte>;

Bytes by_kernels(const RenderPlan& plan, const RenderBatch& batch, std::uint64_t seed) {
  const testing::AlignedBytes scratch(scratch_bytes(plan));
  std::fill_n(scratch.bytes().data(), scratch_bytes(plan), std::byte{0x5a});  // as left by an earlier batch
  const testing::AlignedBytes out(plan.sample_bytes() * batch.size);
  BlockOnHost drawing(kDrawThreads, 0, seed);
  const auto draw = is_narrow(plan) && seed % 4 != 0 ? draw_views<std::int32_t> : draw_views<std::int64_t>;
  for (std::uint32_t i = 0; i < draw_blocks(batch.size); ++i)
    drawing.run(i, [&] { draw(plan, ViewShape(plan), batch, scratch.bytes().data()); });
  with_kernel(plan, [&](auto kernel) {
    using Kernel = decltype(kernel);
    const Deal deal(plan);
    REQUIRE(deal.shared_bytes() <= 48U << 10U);
    BlockOnHost block(kWarps * kLanes, deal.shared_bytes(), seed);
    for (std::uint32_t i = 0; i < deal.blocks(batch.size); ++i) {
      block.run(i, [&] {
        render_views<Kernel::kDType, Kernel::kLayout, Kernel::kFew, Kernel::kChanged>(
            deal, batch.size, scratch.bytes().data(), out.bytes().data());
      });
    }
  });
  return {out.bytes().begin(), out.bytes().end()};
}

Bytes by_twin(const RenderPlan& plan, const RenderBatch& batch) {
  TwinRenderer twin(plan);
  Bytes out(plan.sample_bytes() * batch.size);
  twin.render(batch, out.data(), {});
  return out;
}

// Compares kernels and twin for images with sides up to 400, or of the given width and height.
bool same(const TransformOptions& options, bool eval, Random& random, std::array<std::int32_t, 2> image = {}) {
  const auto side = [&](std::int32_t most) {
    return 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(most)));
  };
  constexpr std::uint32_t kBatch = 2;
  CanvasSlot slot(options, kBatch);
  for (std::uint32_t i = 0; i < kBatch; ++i)
    slot.put(i, image[0] > 0 ? noise_image(image[0], image[1]) : noise_image(side(400), side(400)));
  RenderPlan plan = render_plan(options, 5, eval, kBatch);
  RenderBatch batch = slot.batch(1, random.below(1000), random.below(4));
  plan.views = 1 + static_cast<std::uint32_t>(random.below(3));
  batch.size *= plan.views;
  return by_kernels(plan, batch, random.bits()) == by_twin(plan, batch);
}

TEST_CASE("the kernels' bytes are the twin's: every dtype and layout, widths that fill lanes and that do not") {
  Random random = testing::random_from(std::random_device{}());
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
  Random random = testing::random_from(std::random_device{}());
  const auto side = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most)));
  };
  for (int round = 0; round < (testing::kSanitized ? 12 : 40); ++round) {
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

TEST_CASE("the kernels' bytes are the twin's with operations: every dtype and layout, sizes drawn") {
  Random random = testing::random_from(std::random_device{}());
  for (int round = 0; round < (testing::kSanitized ? 12 : 24); ++round) {
    TransformOptions options;
    options.size = {1 + static_cast<std::int64_t>(random.below(40)), 1 + static_cast<std::int64_t>(random.below(160))};
    if (round % 2 == 0) options.size[1] = options.size[1] / 4 * 4 + 4;  // rows of whole lanes
    if (round % 4 == 0) options.canvas = {3 * options.size[0], 3 * options.size[1]};
    options.dtype = static_cast<DType>(round / 2 % 4);
    options.layout = static_cast<Layout>(round % 3 == 0);
    options.operations = {"colour", "erase"};
    if (round % 5 == 0) options.operations.erase(options.operations.begin() + round / 5 % 2);
    options.erase.probability = 0.9;
    CHECK_MESSAGE(same(options, false, random), "round " << round);
  }
}

TEST_CASE("nothing is read behind a slot that views fill to its end") {
  Random random(3);
  TransformOptions options;
  options.size = {20, 32};
  options.canvas = {24, 36};  // no gap between the last canvas and the infos
  options.crop = Crop::none;
  CHECK(canvas_format(options, 2).infos_offset() == 2 * canvas_format(options, 2).place_bytes());
  for (int round = 0; round < 4; ++round) CHECK(same(options, false, random, {300, 200}));
}

TEST_CASE("windows cut off by a small canvas") {
  Random random = testing::random_from(std::random_device{}());
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

TEST_CASE("what a GPU is checked with launches every kernel") {
  std::map<std::string, std::type_index> kernels;
  for (const bool quick : {true, false}) {
    kernels.clear();
    for (const gpu_check::KernelCase& one : gpu_check::kernel_cases(quick)) {
      const RenderPlan plan = render_plan(one.options, 5, false, one.batch_size);
      const std::type_index taken = with_kernel(plan, [](auto kernel) { return std::type_index(typeid(kernel)); });
      const auto [named, is_new] = kernels.emplace(gpu_check::kernel_of(plan), taken);
      CHECK_MESSAGE(named->second == taken, named->first);
    }
    std::set<std::type_index> distinct;
    for (const auto& [name, type] : kernels) distinct.insert(type);
    CHECK(kernels.size() == gpu_check::kRenderKernels);
    CHECK(distinct.size() == gpu_check::kRenderKernels);
  }
}

}  // namespace
}  // namespace forebay::cuda
