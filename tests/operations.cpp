// Operations on views: how they follow each other, what they draw, and what is refused. What "colour" and "erase" make
// of a pixel: colour.cpp.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/operation.hpp>

#include "canvas_support.hpp"
#include "make/operation_chain.hpp"
#include "make/pixel_math.hpp"
#include "make/renderers.hpp"
#include "make/sample_maker.hpp"

namespace forebay {
namespace {

using testing::CanvasSlot;
using testing::noise_image;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kSeed = 20261122;

TransformOptions options_with(std::vector<std::string> operations) {
  TransformOptions options;
  options.size = {19, 37};
  options.operations = std::move(operations);
  options.colour.grey = 0.2;
  return options;
}

// Leaves all pixels as they are, and so keeps what stands before it from being made of each pixel by itself.
class Nothing final : public Operation {
 public:
  void apply(const PixelView& /*view*/, Random& /*random*/) const override {}
};

class Invert final : public Operation {
 public:
  void apply(const PixelView& view, Random& /*random*/) const override {
    for (Pixel& pixel : view.pixels) {
      pixel.red = static_cast<std::uint8_t>(255 - pixel.red);
      pixel.green = static_cast<std::uint8_t>(255 - pixel.green);
      pixel.blue = static_cast<std::uint8_t>(255 - pixel.blue);
    }
  }
  [[nodiscard]] bool in_evaluation() const noexcept override { return true; }
};

class Fails final : public Operation {
 public:
  void apply(const PixelView& /*view*/, Random& /*random*/) const override { throw std::runtime_error("no such luck"); }
};

OperationRegistry registry() {
  OperationRegistry all = OperationRegistry::builtin();
  all.add("nothing", [](const TransformOptions&) { return std::make_unique<Nothing>(); });
  all.add("invert", [](const TransformOptions&) { return std::make_unique<Invert>(); });
  all.add("fails", [](const TransformOptions&) { return std::make_unique<Fails>(); });
  return all;
}

Bytes made(const TransformOptions& options, const OperationChain& chain, std::uint64_t position) {
  const SampleMaker maker(options, kSeed, false, Transform::Stores::normal, chain);
  SampleMaker::Workspace workspace;
  const Image image = noise_image(90, 60);
  Sample sample;
  sample.encoding = Encoding::raw;
  sample.width = image.width;
  sample.height = image.height;
  sample.channels = 3;
  const auto pixels = std::as_bytes(std::span(image.pixels).first(std::size_t{90} * 60 * 3));
  Bytes out(maker.sample_bytes() + 1, std::byte{0xa5});
  maker.make(pixels, sample, 3, position, std::span(out).first(maker.sample_bytes()), workspace);
  REQUIRE(out.back() == std::byte{0xa5});
  return out;
}

Bytes made(const TransformOptions& options, std::uint64_t position) {
  return made(options, OperationChain(registry(), options, false), position);
}

TEST_CASE("random numbers depend on seed, epoch, position, use and the operation's place, and on nothing else") {
  const auto first = [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t position, std::uint64_t use,
                        std::uint32_t place) {
    return operation_random(operations_key(seed, epoch, position, use), place).bits();
  };
  const std::uint64_t one = first(1, 2, 3, 4, 0);
  CHECK(first(1, 2, 3, 4, 0) == one);
  CHECK(first(2, 2, 3, 4, 0) != one);
  CHECK(first(1, 3, 3, 4, 0) != one);
  CHECK(first(1, 2, 4, 4, 0) != one);
  CHECK(first(1, 2, 3, 5, 0) != one);
  CHECK(first(1, 2, 3, 4, 1) != one);
  // Nor are they those that the view was drawn with.
  CHECK(first(1, 2, 3, 4, 0) != Random(key64(1, kAugmentation, 2, 3, 4)).bits());
  const auto recoloured_as = [](std::vector<std::string> names) { return made(options_with(std::move(names)), 2); };
  CHECK(recoloured_as({"nothing", "colour"}) != recoloured_as({"colour", "nothing"}));
}

TEST_CASE("operations made of each pixel on its way to the slot give what calls one after the other give") {
  for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8}) {
    for (const auto layout : {Layout::nchw, Layout::nhwc}) {
      TransformOptions options = options_with({"colour", "erase"});
      options.dtype = dtype;
      options.layout = layout;
      TransformOptions called = options;
      called.operations.emplace_back("nothing");
      CHECK(OperationChain(registry(), options, false).has_twin());
      CHECK_FALSE(OperationChain(registry(), called, false).has_twin());
      TransformOptions plain = options;
      plain.operations.clear();
      int changed = 0;
      for (std::uint64_t position = 0; position < 20; ++position) {
        REQUIRE(made(options, position) == made(called, position));
        changed += made(options, position) == made(plain, position) ? 0 : 1;
      }
      CHECK(changed == 20);
    }
  }
}

TEST_CASE("operations follow each other as they are listed") {
  const auto twin = [](std::vector<std::string> names) {
    return OperationChain(registry(), options_with(std::move(names)), false).has_twin();
  };
  CHECK(twin({}));
  CHECK(twin({"colour"}));
  CHECK(twin({"erase"}));
  CHECK(twin({"colour", "erase"}));
  CHECK_FALSE(twin({"erase", "colour"}));
  CHECK_FALSE(twin({"colour", "colour"}));
  CHECK_FALSE(twin({"erase", "erase"}));
  CHECK_FALSE(twin({"invert", "colour"}));
  TransformOptions last = options_with({"nothing", "erase", "invert"});
  TransformOptions first = options_with({"invert", "erase", "nothing"});
  last.dtype = first.dtype = DType::uint8;
  last.erase.probability = first.erase.probability = 1;
  CHECK(made(last, 0) != made(first, 0));
  last.operations = {"invert", "nothing", "invert"};
  first.operations = {};
  CHECK(made(last, 0) == made(first, 0));
}

// What every operation that comes with Forebay has to keep.
TEST_CASE(
    "every operation that comes with Forebay changes pixels by them and its random numbers alone, on any thread") {
  const TransformOptions options = options_with({});
  const OperationRegistry all = OperationRegistry::builtin();
  const Image image = noise_image(37, 19);
  std::vector<Pixel> original(std::size_t{37} * 19);
  for (std::size_t i = 0; i < original.size(); ++i) {
    original[i] = {image.pixels[3 * i], image.pixels[3 * i + 1], image.pixels[3 * i + 2], 0};
  }
  for (const std::string& name : all.names()) {
    CAPTURE(name);
    const std::shared_ptr<const Operation> operation = all.make(name, options);
    const std::unique_ptr<const Operation> another = all.make(name, options);
    const auto applied = [&](const Operation& one, std::uint64_t key) {
      std::vector<Pixel> pixels = original;
      Random random(key);
      one.apply({.pixels = pixels, .width = 37, .height = 19}, random);
      return pixels;
    };
    constexpr std::uint64_t kKeys = 20;
    std::array<std::vector<Pixel>, kKeys> expected;
    bool changes = false;
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      expected[key] = applied(*another, key);
      changes = changes || expected[key] != original;
    }
    CHECK(changes);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (std::uint64_t key = kKeys; key-- > 0;) wrong += applied(*operation, key) == expected[key] ? 0 : 1;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    Pixel pixel;
    Random random(1);
    CHECK_NOTHROW(operation->apply({.pixels = {&pixel, 1}, .width = 1, .height = 1}, random));
  }
}

TEST_CASE("an erased rectangle has the mean colour, whatever the type") {
  TransformOptions options = options_with({"erase"});
  options.erase.probability = 1;
  options.erase.area = {1, 1};
  options.size = {1, 1};
  options.mean = {10.4, 20.5, 300};
  options.dtype = DType::uint8;
  const Bytes out = made(options, 0);
  CHECK(std::to_integer<int>(out[0]) == 10);
  CHECK(std::to_integer<int>(out[1]) == 21);
  CHECK(std::to_integer<int>(out[2]) == 255);
}

TEST_CASE("evaluation leaves out what is not for it") {
  const TransformOptions options = options_with({"colour", "invert", "erase"});
  const OperationChain chain(registry(), options, true);
  CHECK(chain.first_call() == "invert");
  CHECK_FALSE(chain.pixels().any());
  CHECK(OperationChain(registry(), options_with({"colour", "erase"}), true).empty());
}

TEST_CASE("what an operation throws names the operation; unknown names, factories and values are refused") {
  CHECK_THROWS_WITH_AS(static_cast<void>(made(options_with({"colour", "fails"}), 0)),
                       doctest::Contains(R"(the operation "fails" of transform.operations failed: no such luck)"),
                       OperationError);
  CHECK_THROWS_WITH_AS(OperationChain(registry(), options_with({"colur"}), false),
                       doctest::Contains(R"(no operation "colur"; known operations: )"), ConfigError);
  OperationRegistry empty;
  empty.add("none", [](const TransformOptions&) { return nullptr; });
  CHECK_THROWS_WITH_AS(OperationChain(empty, options_with({"none"}), false), doctest::Contains("\"none\""),
                       ConfigError);
  CHECK_THROWS_AS(OperationChain(empty, options_with({"erase"}), false), ConfigError);
  TransformOptions bad = options_with({"colour"});
  bad.colour.hue = 0.6;
  CHECK_THROWS_AS(OperationChain(registry(), bad, false), ConfigError);
  bad = options_with({"erase"});
  bad.erase.area = {0.5, 0.4};
  CHECK_THROWS_AS(OperationChain(registry(), bad, false), ConfigError);
}

TEST_CASE("servings of canvases: every kind of kernels gives the twin's bytes, and each use draws anew") {
  for (const std::vector<std::string>& names : {std::vector<std::string>{"colour"}, {"erase"}, {"colour", "erase"}}) {
    for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8}) {
      TransformOptions options = options_with(names);
      options.when = When::dequeue;
      options.dtype = dtype;
      options.crop = Crop::none;
      options.mirror = 0;
      options.erase.probability = 1;
      CanvasSlot slot(options, 2);
      slot.put(0, noise_image(70, 50));
      slot.put(1, noise_image(20, 90));
      const RenderPlan plan = make_render_plan(options, kSeed, false, 2);
      TwinRenderer twin(plan);
      Bytes before;
      for (std::uint64_t use = 0; use < 3; ++use) {
        const RenderBatch batch = slot.batch(1, 10, use);
        Bytes expected(2 * plan.sample_bytes());
        twin.render(batch, expected.data(), {});
        CHECK(expected != before);
        before = expected;
        for (const Kernels& kernels : supported_kernels()) {
          CAPTURE(kernels.name);
          HostRenderer renderer(options, kSeed, false, 2, kernels);
          Bytes given(expected.size());
          renderer.render(batch, given.data(), {});
          CHECK(given == expected);
        }
      }
    }
  }
}

TEST_CASE("a sample that is made once is changed as a canvas is at its first use") {
  TransformOptions options = options_with({"colour", "erase"});
  options.size = {60, 90};
  options.canvas = {60, 96};  // as large as the image
  options.crop = Crop::none;
  options.mirror = 0;
  const Bytes once = made(options, 5);
  options.when = When::dequeue;
  CanvasSlot slot(options, 1);
  slot.put(0, noise_image(90, 60));
  Bytes served(once.size(), std::byte{0xa5});
  HostRenderer(options, kSeed, false, 1).render(slot.batch(3, 5, 0), served.data(), {});
  CHECK(served == once);
}

}  // namespace
}  // namespace forebay
