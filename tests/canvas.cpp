// Canvases in a slot, and the views rendered from them.
#include "allocation_counter.hpp"
#include "canvas_support.hpp"
#include "make/canvas_math.hpp"
#include "make/transform.hpp"
#include "test.hpp"

namespace forebay::test_canvas {

using namespace forebay::make;

namespace {

using namespace testing;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kSeed = 20261122;

TransformOptions options_of(std::array<std::int64_t, 2> size, std::array<std::int64_t, 2> canvas = {0, 0}) {
  TransformOptions options;
  options.when = When::dequeue;
  options.size = size;
  options.canvas = canvas;
  return options;
}

Bytes rendered(CanvasRenderer& renderer, const RenderPlan& plan, const RenderBatch& batch) {
  Bytes out(plan.sample_bytes() * batch.size + 1, std::byte{0xa5});
  renderer.render(batch, out.data(), {});
  REQUIRE(out.back() == std::byte{0xa5});
  out.pop_back();
  return out;
}

Bytes by_twin(const TransformOptions& options, const RenderBatch& batch, bool eval = false) {
  const RenderPlan plan = render_plan(options, kSeed, eval, batch.size);
  TwinRenderer twin(plan);
  return rendered(twin, plan, batch);
}

Bytes by_host(const TransformOptions& options, const RenderBatch& batch, bool eval = false,
              const Kernels& kernels = best_kernels()) {
  const RenderPlan plan = render_plan(options, kSeed, eval, batch.size);
  HostRenderer renderer(options, plan, kernels);
  return rendered(renderer, plan, batch);
}

TEST_CASE("a place has room for 8/7 of the result unless something else is asked for") {
  const auto sides = [](const TransformOptions& options) {
    const CanvasFormat format = canvas_format(options, 1);
    return std::pair(format.height, format.width);
  };
  CHECK(sides(options_of({224, 224})) == std::pair<std::int64_t, std::int64_t>(256, 256));
  CHECK(sides(options_of({160, 1})) == std::pair<std::int64_t, std::int64_t>(184, 8));
  CHECK(sides(options_of({224, 224}, {300, 0})) == std::pair<std::int64_t, std::int64_t>(300, 256));
  const CanvasFormat odd = canvas_format(options_of({10, 10}, {7, 11}), 3);
  CHECK(odd.row_bytes() == 48);
  CHECK(odd.infos_offset() == 1024);
  CHECK(odd.batch_bytes() == 1024 + 3 * sizeof(CanvasInfo));
  CHECK_THROWS_WITH_AS(static_cast<void>(canvas_format(options_of({10, 10}, {81, 0}), 1)),
                       doctest::Contains("transform.canvas"), ConfigError);
  CHECK_THROWS_AS(static_cast<void>(canvas_format(options_of({10, 10}, {0, -1}), 1)), ConfigError);
}

TEST_CASE("a canvas is the image or its box, each side as small as the place's") {
  const auto options = options_of({28, 28}, {32, 40});
  const CanvasMaker maker(options);
  const auto info = [&](std::int32_t width, std::int32_t height, const std::optional<Box>& box = {}) {
    const CanvasInfo given = maker.view(width, height, box).info;
    return std::array{given.width, given.height, given.canvas_width, given.canvas_height};
  };
  CHECK(info(100, 200) == std::array{100, 200, 40, 32});
  CHECK(info(39, 20) == std::array{39, 20, 39, 20});
  CHECK(info(500, 20) == std::array{500, 20, 40, 20});
  CHECK(info(500, 400, Box{10, 10, 30, 390}) == std::array{20, 380, 20, 32});
  CHECK(info(500, 400, Box{-10, -10, 30, 39}) == std::array{30, 39, 30, 32});
  CHECK_THROWS_AS(static_cast<void>(maker.view(500, 400, Box{500, 0, 510, 9})), SampleError);
  CHECK(maker.shrink_of(maker.view(80, 64, {})) == 2);
  CHECK(maker.shrink_of(maker.view(79, 640, {})) == 1);
  CHECK(maker.shrink_of(maker.view(4000, 4000, {})) == 8);
}

TEST_CASE("a canvas has the pixels that resizing to its size gives") {
  auto options = options_of({28, 28}, {32, 40});
  for (const auto& [width, height] :
       {std::pair{100, 75}, std::pair{40, 32}, std::pair{9, 7}, std::pair{200, 10}, std::pair{10, 200}}) {
    const Image image = noise_image(width, height);
    for (const auto& box : {std::optional<Box>{}, std::optional<Box>{Box{1, 2, width - 1, height - 1}}}) {
      CanvasSlot slot(options, 2);
      slot.put(1, image, box);
      const CanvasInfo info = info_of(slot.format(), slot.bytes().data(), 1);
      TransformOptions plain;
      plain.crop = Crop::none;
      plain.mirror = 0;
      plain.dtype = DType::uint8;
      plain.layout = Layout::nhwc;
      plain.size = {info.canvas_height, info.canvas_width};
      const Transform resize(plain, 1, false);
      Bytes expected(resize.sample_bytes());
      Transform::Scratch scratch;
      resize.apply(image, box, 0, 0, expected, scratch);
      const auto pixels = slot.format().place(slot.bytes(), 1).pixels;
      const auto row = static_cast<std::size_t>(info.canvas_width) * 3;
      for (std::size_t y = 0; y < static_cast<std::size_t>(info.canvas_height); ++y) {
        REQUIRE(std::equal(expected.data() + y * row, expected.data() + (y + 1) * row,
                           pixels.data() + y * slot.format().row_bytes()));
      }
      // The preceding canvas is untouched.
      const auto other = slot.format().place(slot.bytes(), 0).pixels;
      CHECK(std::ranges::all_of(other, [](std::byte byte) { return byte == std::byte{0}; }));
    }
  }
}

TEST_CASE("views depend on seed, epoch, position and use, and on nothing else") {
  const RenderPlan plan = render_plan(options_of({224, 224}), kSeed, false, 1);
  const RenderPlan other = render_plan(options_of({224, 224}), kSeed + 1, false, 1);
  const CanvasInfo info{256, 256, 256, 256};
  int same = 0;
  int mirrored = 0;
  constexpr int kPositions = 1000;
  for (std::uint64_t position = 0; position < kPositions; ++position) {
    const ImageView view = canvas_view(plan, info, 3, position, 2);
    REQUIRE(canvas_view(plan, info, 3, position, 2).region == view.region);
    REQUIRE(canvas_view(plan, info, 3, position, 2).mirror == view.mirror);
    for (const ImageView& another :
         {canvas_view(plan, info, 4, position, 2), canvas_view(plan, info, 3, position + 1, 2),
          canvas_view(plan, info, 3, position, 1), canvas_view(other, info, 3, position, 2)}) {
      if (another.region == view.region) ++same;
    }
    if (view.mirror) ++mirrored;
  }
  CHECK(same < 20);
  CHECK(std::abs(mirrored - kPositions / 2) < 90);
}

TEST_CASE("a view is drawn in the image and lies where the canvas shows the same") {
  const RenderPlan plan = render_plan(options_of({224, 224}), kSeed, false, 1);
  Random random(kSeed);
  int outside = 0;
  double farthest = 0;
  for (std::uint64_t round = 0; round < 20'000; ++round) {
    const auto side = [&] { return 1 + static_cast<std::int32_t>(random.below(random.below(4) == 0 ? 5 : 900)); };
    const std::int32_t width = side();
    const std::int32_t height = side();
    const CanvasInfo whole{width, height, width, height};
    const CanvasInfo info{width, height, std::min(width, 256), std::min(height, 256)};
    const Box drawn = canvas_view(plan, whole, 0, round, 0).region;
    const Box place = canvas_view(plan, info, 0, round, 0).region;
    if (place.left < 0 || place.top < 0 || place.left >= place.right || place.top >= place.bottom ||
        place.right > info.canvas_width || place.bottom > info.canvas_height) {
      ++outside;
    }
    const double scale = static_cast<double>(info.canvas_width) / width;
    farthest = std::max({farthest, std::abs(drawn.left * scale - place.left) - 0.5 - 1e-9,
                         std::abs(drawn.right * scale - place.right) - 1});
  }
  CHECK(outside == 0);
  CHECK(farthest <= 0.5);
}

TEST_CASE("evaluation shows the middle, not mirrored, at every use") {
  auto options = options_of({28, 28}, {32, 32});
  options.mirror = 1;
  options.dtype = DType::uint8;
  CanvasSlot slot(options, 1);
  slot.put(0, noise_image(32, 32));
  const Bytes first = by_host(options, slot.batch(0, 0, 0), true);
  CHECK(by_host(options, slot.batch(5, 7, 3), true) == first);
  // The middle 7/8 of the canvas has the output's size, so its pixels are unchanged.
  const auto place = slot.format().place(slot.bytes(), 0).pixels;
  int wrong = 0;
  for (std::size_t y = 0; y < 28; ++y) {
    for (std::size_t x = 0; x < 28; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        if (first[(c * 28 + y) * 28 + x] != place[(y + 2) * slot.format().row_bytes() + (x + 2) * 3 + c]) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("another use of a batch is another view, the same use the same bytes") {
  auto options = options_of({24, 24});
  CanvasSlot slot(options, 2);
  slot.put(0, noise_image(70, 50));
  slot.put(1, noise_image(20, 90));
  const RenderPlan plan = render_plan(options, kSeed, false, 2);
  HostRenderer renderer(options, plan);
  const Bytes first = rendered(renderer, plan, slot.batch(1, 10, 0));
  CHECK(rendered(renderer, plan, slot.batch(1, 10, 1)) != first);
  CHECK(rendered(renderer, plan, slot.batch(1, 10, 0)) == first);
  // A sample's view does not depend on its index in the batch.
  CanvasSlot turned(options, 2);
  turned.put(0, noise_image(5, 5));
  turned.put(1, noise_image(70, 50));
  const Bytes second = rendered(renderer, plan, turned.batch(1, 9, 0));
  const auto half = static_cast<std::ptrdiff_t>(plan.sample_bytes());
  CHECK(std::equal(first.begin(), first.begin() + half, second.begin() + half));
}

TEST_CASE("the host renderer's bytes are the twin's, with every kind of kernels") {
  Random random = testing::random_from(kSeed);
  const auto side = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most)));
  };
  for (int round = 0; round < 60; ++round) {
    TransformOptions options = options_of({side(60), side(80)});
    if (round % 2 == 1) options.canvas = {side(8 * options.size[0]), side(8 * options.size[1])};
    options.crop = round % 5 == 0 ? Crop::none : Crop::random_resized;
    options.dtype = static_cast<DType>(random.below(4));
    options.layout = static_cast<Layout>(random.below(2));
    constexpr std::uint32_t kBatch = 3;
    CanvasSlot slot(options, kBatch);
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      slot.put(i, noise_image(static_cast<std::int32_t>(side(300)), static_cast<std::int32_t>(side(300))));
    }
    const RenderBatch batch = slot.batch(random.below(5), random.below(1000), random.below(9));
    const Bytes expected = by_twin(options, batch);
    for (const Kernels& kernels : supported_kernels()) {
      const std::string text = std::string(kernels.name) + ", round " + std::to_string(round);
      CHECK_MESSAGE(by_host(options, batch, false, kernels) == expected, text);
    }
  }
}

// The triangle filter in floating point, written from its definition.
std::vector<double> exact_axis(const std::vector<double>& in, std::int32_t out) {
  const double scale = static_cast<double>(in.size()) / out;
  const double support = std::max(scale, 1.0);
  std::vector<double> result;
  for (std::int32_t i = 0; i < out; ++i) {
    double sum = 0;
    double weights = 0;
    for (std::size_t x = 0; x < in.size(); ++x) {
      const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(x) + 0.5 - (i + 0.5) * scale) / support);
      sum += weight * in[x];
      weights += weight;
    }
    result.push_back(sum / weights);
  }
  return result;
}

// One channel of a view of a canvas, row by row.
std::vector<double> exact_view(const CanvasSlot& slot, std::span<const std::byte> place, const ImageView& view,
                               std::size_t channel, std::int32_t width, std::int32_t height) {
  std::vector<std::vector<double>> narrow;
  for (std::int32_t y = view.region.top; y < view.region.bottom; ++y) {
    std::vector<double> row;
    for (std::int32_t x = view.region.left; x < view.region.right; ++x) {
      row.push_back(std::to_integer<int>(
          place[static_cast<std::size_t>(y) * slot.format().row_bytes() + 3 * static_cast<std::size_t>(x) + channel]));
    }
    narrow.push_back(exact_axis(row, width));
    if (view.mirror) std::ranges::reverse(narrow.back());
  }
  std::vector<double> result(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  for (std::size_t x = 0; x < static_cast<std::size_t>(width); ++x) {
    std::vector<double> column;
    for (const auto& row : narrow) column.push_back(row[x]);
    const auto resized = exact_axis(column, height);
    for (std::size_t y = 0; y < resized.size(); ++y) result[y * static_cast<std::size_t>(width) + x] = resized[y];
  }
  return result;
}

TEST_CASE("at most one grey level from exact arithmetic, enlarged and shrunk") {
  double worst = 0;
  for (const auto& size : {std::array<std::int64_t, 2>{48, 40}, {20, 90}, {90, 20}, {13, 11}}) {
    TransformOptions options = options_of(size, {std::min<std::int64_t>(96, 8 * size[0]), 88});
    options.dtype = DType::uint8;
    for (const auto& [width, height] : {std::pair{500, 375}, std::pair{30, 25}, std::pair{88, 96}}) {
      CanvasSlot slot(options, 1);
      slot.put(0, noise_image(width, height));
      const RenderPlan plan = render_plan(options, kSeed, false, 1);
      for (std::uint64_t use = 0; use < 6; ++use) {
        const RenderBatch batch = slot.batch(0, 4, use);
        const Bytes given = by_twin(options, batch);
        const ImageView view = canvas_view(plan, info_of(plan.canvas, batch.canvases, 0), 0, 4, use);
        for (std::size_t channel = 0; channel < 3; ++channel) {
          const auto exact = exact_view(slot, slot.format().place(slot.bytes(), 0).pixels, view, channel,
                                        plan.view.width, plan.view.height);
          for (std::size_t i = 0; i < exact.size(); ++i) {
            worst = std::max(worst, std::abs(exact[i] - std::to_integer<int>(given[channel * exact.size() + i])));
          }
        }
      }
    }
  }
  MESSAGE("largest error: " << worst);
  // Two roundings of up to half a grey level each, and coefficients of 14 bits.
  CHECK(worst <= 1.01);
  CHECK(worst > 0.5);
}

TEST_CASE("a serving allocates nothing once it has met its sizes") {
  const auto options = options_of({32, 48});
  CanvasSlot slot(options, 4);
  for (std::uint32_t i = 0; i < 4; ++i) slot.put(i, noise_image(60 + 20 * static_cast<std::int32_t>(i), 50));
  const RenderPlan plan = render_plan(options, kSeed, false, 4);
  HostRenderer renderer(options, plan);
  Bytes out(4 * plan.sample_bytes());
  for (std::uint64_t use = 0; use < 100; ++use) renderer.render(slot.batch(0, 0, use), out.data(), {});
  const testing::AllocationCounter allocations;
  for (std::uint64_t use = 0; use < 100; ++use) renderer.render(slot.batch(0, 0, use), out.data(), {});
  CHECK(allocations.count() == 0);
}

TEST_CASE("a short batch renders its samples only") {
  const auto options = options_of({8, 8});
  CanvasSlot slot(options, 3);
  slot.put(0, noise_image(20, 20));
  const RenderPlan plan = render_plan(options, kSeed, false, 3);
  HostRenderer renderer(options, plan);
  TwinRenderer twin(plan);
  RenderBatch batch = slot.batch();
  batch.size = 1;
  CHECK(rendered(renderer, plan, batch) == rendered(twin, plan, batch));
  batch.size = 0;
  CHECK(rendered(renderer, plan, batch).empty());
}

}  // namespace
}  // namespace forebay::test_canvas
