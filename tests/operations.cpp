// Operations on views: their order, their random numbers, and what is refused.
#include <forebay/operation.hpp>

#include "canvas_support.hpp"
#include "make/kernels.hpp"
#include "make/operation_chain.hpp"
#include "make/pixel_math.hpp"
#include "make/sample_maker.hpp"
#include "test.hpp"

namespace forebay::test_operations {

using namespace forebay::make;

namespace {

using namespace testing;
using Bytes = std::vector<std::byte>;
using Colour = std::array<double, 3>;

constexpr std::uint64_t kSeed = 20261122;

TransformOptions options_with(std::vector<std::string> operations) {
  TransformOptions options;
  options.size = {19, 37};
  options.operations = std::move(operations);
  options.colour.grey = 0.2;
  return options;
}

// Leaves all pixels as they are. Placed after another operation, it prevents that one from being
// applied on the way to the slot.
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
  const SampleMaker maker(options, kSeed, false, chain);
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
  // They also differ from those with which the view was drawn.
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
      CHECK(OperationChain(registry(), options, false).can_render_later());
      CHECK_FALSE(OperationChain(registry(), called, false).can_render_later());
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

// The result of an operation that is applied with certainty.
std::vector<Pixel> changed(const std::string& name, const TransformOptions& options, std::vector<Pixel> pixels,
                           std::int32_t width) {
  Random random(5);
  const PixelView view{.pixels = pixels, .width = width, .height = static_cast<std::int32_t>(pixels.size()) / width};
  registry().make(name, options)->apply(view, random);
  return pixels;
}

TEST_CASE("a blur is the Gaussian's, mirrored at the edges, to a grey level and a half") {
  TransformOptions options;
  options.blur.probability = 1;
  for (const double sigma : {0.1, 0.7, 2.0, 9.5, 53.42}) {
    options.blur.sigma = {sigma, sigma};
    for (const auto& [width, height] :
         std::vector<std::pair<std::int32_t, std::int32_t>>{{1, 1}, {1, 9}, {5, 3}, {41, 30}}) {
      CAPTURE(sigma);
      CAPTURE(width);
      const auto side = [](std::int32_t i, std::int32_t count) {
        while (i < 0 || i >= count) i = count == 1 ? 0 : i < 0 ? -i : 2 * (count - 1) - i;
        return i;
      };
      const Image image = noise_image(width, height);
      std::vector<Pixel> pixels;
      for (std::size_t i = 0; i < static_cast<std::size_t>(width * height); ++i)
        pixels.push_back({image.pixels[3 * i], image.pixels[3 * i + 1], image.pixels[3 * i + 2]});
      const std::vector<Pixel> blurred = changed("blur", options, pixels, width);
      if (sigma == 0.1) CHECK(blurred == pixels);
      const auto radius = static_cast<std::int32_t>(std::ceil(3 * sigma));
      double worst = 0;
      for (std::int32_t y = 0; y < height; ++y) {
        for (std::int32_t x = 0; x < width; ++x) {
          double sum = 0;
          double weights = 0;
          for (std::int32_t dy = -radius; dy <= radius; ++dy) {
            for (std::int32_t dx = -radius; dx <= radius; ++dx) {
              const double weight = std::exp(-(dx * dx + dy * dy) / (2 * sigma * sigma));
              const auto at = static_cast<std::size_t>(side(y + dy, height) * width + side(x + dx, width));
              sum += weight * pixels[at].green;
              weights += weight;
            }
          }
          worst = std::max(worst, std::abs(sum / weights - blurred[static_cast<std::size_t>(y * width + x)].green));
        }
      }
      CHECK(worst < 1.5);
    }
  }
  const std::vector<Pixel> even(200, Pixel{7, 200, 255});
  CHECK(changed("blur", options, even, 20) == even);
  options.blur.probability = 0;
  const std::vector<Pixel> two{{1, 2, 3}, {200, 100, 0}};
  CHECK(changed("blur", options, two, 2) == two);
}

TEST_CASE("solarise inverts what is bright") {
  TransformOptions options;
  options.solarise = {.probability = 1, .threshold = 128};
  CHECK(changed("solarise", options, {{127, 128, 255}, {0, 200, 1}}, 2) ==
        std::vector<Pixel>{{127, 127, 0}, {0, 55, 1}});
  options.solarise.probability = 0;
  CHECK(changed("solarise", options, {{127, 128, 255}}, 1) == std::vector<Pixel>{{127, 128, 255}});
}

TEST_CASE("options that an operation cannot honour are refused by their name") {
  const auto refused = [](const std::function<void(TransformOptions&)>& set, const std::string& name) {
    TransformOptions options;
    set(options);
    return error_of([&] { (void)registry().make(name, options); });
  };
  CHECK(contains(refused([](TransformOptions& o) { o.blur.sigma = {0.05, 1}; }, "blur"), "blur.sigma must be"));
  CHECK(contains(refused([](TransformOptions& o) { o.blur.sigma = {2, 1}; }, "blur"), "blur.sigma must be"));
  CHECK(contains(refused([](TransformOptions& o) { o.blur.probability = 2; }, "blur"), "blur.probability must be"));
  CHECK(contains(refused([](TransformOptions& o) { o.solarise.threshold = 256; }, "solarise"), "solarise.threshold"));
}

TEST_CASE("operations follow each other as they are listed") {
  const auto twin = [](std::vector<std::string> names) {
    return OperationChain(registry(), options_with(std::move(names)), false).can_render_later();
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

// What every built-in operation must fulfil.
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
      const RenderPlan plan = render_plan(options, kSeed, false, 2);
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
          HostRenderer renderer(options, plan, kernels);
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
  HostRenderer(options, render_plan(options, kSeed, false, 1)).render(slot.batch(3, 5, 0), served.data(), {});
  CHECK(served == once);
}

// What "colour" and "erase" do to a pixel: their definitions, what they draw, and every set of
// kernels.

std::uint32_t word_of(const Colour& colour) {
  std::uint32_t word = 0xee000000;  // the highest byte has no meaning
  for (std::size_t i = 0; i < 3; ++i) word |= static_cast<std::uint32_t>(colour[i]) << (8 * i);
  return word;
}

Colour colour_of(std::uint32_t word) {
  return {static_cast<double>(word & 0xffU), static_cast<double>(word >> 8U & 0xffU),
          static_cast<double>(word >> 16U & 0xffU)};
}

double luma(const Colour& colour) { return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]; }

// The four adjustments in turn, by their textbook definitions.
Colour adjusted(Colour colour, const ColourFactors& factors) {
  for (double& value : colour) value = factors.contrast * (factors.brightness * value - 127.5) + 127.5;
  const double grey = luma(colour);
  for (double& value : colour) value = grey + factors.saturation * (value - grey);
  const double u = 0.436 / 0.886 * (colour[2] - grey);
  const double v = 0.615 / 0.701 * (colour[0] - grey);
  const double angle = 2 * std::acos(-1.0) * factors.hue;
  const double turned_u = u * std::cos(angle) - v * std::sin(angle);
  const double turned_v = u * std::sin(angle) + v * std::cos(angle);
  const double red = grey + turned_v * 0.701 / 0.615;
  const double blue = grey + turned_u * 0.886 / 0.436;
  return {red, (grey - 0.299 * red - 0.114 * blue) / 0.587, blue};
}

TEST_CASE("the matrix is brightness, contrast, saturation and hue, one after the other, and rounds once") {
  Random random(kSeed);
  double worst = 0;
  for (int round = 0; round < 20000; ++round) {
    const ColourFactors factors{.brightness = random.uniform(0, 2),
                                .contrast = random.uniform(0, 2),
                                .saturation = random.uniform(0, 2),
                                .hue = random.uniform(-0.5, 0.5)};
    const Colour colour{std::floor(random.uniform(0, 256)), std::floor(random.uniform(0, 256)),
                        std::floor(random.uniform(0, 256))};
    const Colour given = colour_of(recoloured(colour_matrix(factors), word_of(colour)));
    const Colour exact = adjusted(colour, factors);
    for (std::size_t i = 0; i < 3; ++i) worst = std::max(worst, std::abs(given[i] - std::clamp(exact[i], 0.0, 255.0)));
  }
  MESSAGE("largest error: " << worst);
  CHECK(worst <= 0.51);
  CHECK(worst > 0.45);
}

TEST_CASE("neutral factors change nothing; no saturation leaves luma; hue goes from red by yellow to green") {
  const ColourMatrix neutral = colour_matrix({});
  const ColourMatrix grey = colour_matrix({.saturation = 0});
  const ColourMatrix third = colour_matrix({.hue = 1.0 / 3});
  int wrong = 0;
  for (std::uint32_t i = 0; i < 1U << 24U; i += 97) {
    if (recoloured(neutral, i) != i) ++wrong;
    const Colour faded = colour_of(recoloured(grey, i));
    if (faded[0] != faded[1] || faded[1] != faded[2] || std::abs(faded[0] - luma(colour_of(i))) > 0.51) ++wrong;
  }
  CHECK(wrong == 0);
  const Colour turned = colour_of(recoloured(third, word_of({255, 0, 0})));
  CHECK(turned[1] > turned[0]);
  CHECK(turned[1] > turned[2]);
}

TEST_CASE("directions are those of the library to twelve digits") {
  double worst = 0;
  for (int i = -5000; i <= 5000; ++i) {
    const double angle = 2 * std::acos(-1.0) * i / 10000;
    const Direction given = direction(i / 10000.0);
    worst = std::max({worst, std::abs(given.cosine - std::cos(angle)), std::abs(given.sine - std::sin(angle))});
  }
  CHECK(worst < 1e-12);
}

TEST_CASE("factors reach as far as the options say, and grey is as likely") {
  const ColourRule rule{.brightness = 0.3, .contrast = 1, .saturation = 0.2, .hue = 0.5, .grey = 0.25};
  ColourFactors least{.brightness = 9, .contrast = 9, .saturation = 9, .hue = 9};
  ColourFactors most{.brightness = -9, .contrast = -9, .saturation = -9, .hue = -9};
  int greys = 0;
  constexpr int kRounds = 10000;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const ColourFactors drawn = draw_factors(rule, operation_random(operations_key(kSeed, 0, i, 0), 0));
    greys += drawn.saturation == 0 ? 1 : 0;
    const auto note = [&](double ColourFactors::*of) {
      least.*of = std::min(least.*of, drawn.*of);
      most.*of = std::max(most.*of, drawn.*of);
    };
    note(&ColourFactors::brightness);
    note(&ColourFactors::contrast);
    note(&ColourFactors::hue);
    if (drawn.saturation != 0) note(&ColourFactors::saturation);
  }
  CHECK(least.brightness == doctest::Approx(0.7).epsilon(0.01));
  CHECK(most.brightness == doctest::Approx(1.3).epsilon(0.01));
  CHECK(least.contrast < 0.01);
  CHECK(most.contrast == doctest::Approx(2).epsilon(0.01));
  CHECK(least.saturation == doctest::Approx(0.8).epsilon(0.01));
  CHECK(most.saturation == doctest::Approx(1.2).epsilon(0.01));
  CHECK(least.hue == doctest::Approx(-0.5).epsilon(0.01));
  CHECK(most.hue == doctest::Approx(0.5).epsilon(0.01));
  CHECK(greys / double{kRounds} == doctest::Approx(0.25).epsilon(0.1));
}

TEST_CASE("an erased rectangle lies in the view, is as large as asked for and as likely") {
  EraseRule rule{.probability = 0.4, .region = region_rule({0.1, 0.2}, {0.5, 2}), .fill = 0};
  int erased = 0;
  constexpr int kRounds = 10000;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const Box box = draw_erased(rule, 200, 100, Random(i));
    if (box == Box{}) continue;
    ++erased;
    REQUIRE((box.left >= 0 && box.top >= 0 && box.right <= 200 && box.bottom <= 100));
    const double area = box.width() * box.height() / 20000.0;
    REQUIRE((area > 0.095 && area < 0.205));
  }
  CHECK(erased / double{kRounds} == doctest::Approx(0.4).epsilon(0.05));
  rule.probability = 1;
  rule.region = region_rule({1, 1}, {0.3, 3.3});
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Box box = draw_erased(rule, 1, 7, Random(i));
    REQUIRE((box.width() == 1 && box.height() >= 1 && box.bottom <= 7));
  }
}

TEST_CASE("every kind of kernels changes colours as the definition says, in place and beside it") {
  Random random(kSeed);
  for (const Kernels& kernels : supported_kernels()) {
    CAPTURE(kernels.name);
    int wrong = 0;
    for (std::size_t width = 1; width <= 70; ++width) {
      const ColourMatrix matrix = colour_matrix({.brightness = random.uniform(0, 2),
                                                 .contrast = random.uniform(0, 2),
                                                 .saturation = random.uniform(0, 2),
                                                 .hue = random.uniform(-0.5, 0.5)});
      std::vector<std::uint8_t> row(width * kPixelBytes);
      for (auto& byte : row) byte = static_cast<std::uint8_t>(random.bits());
      std::vector<std::uint8_t> expected(row.size());
      for (std::size_t at = 0; at < row.size(); at += kPixelBytes) {
        const std::uint32_t pixel =
            recoloured(matrix, row[at] | std::uint32_t{row[at + 1]} << 8U | std::uint32_t{row[at + 2]} << 16U);
        for (std::size_t i = 0; i < kPixelBytes; ++i) expected[at + i] = static_cast<std::uint8_t>(pixel >> (8 * i));
      }
      std::vector<std::uint8_t> out(row.size());
      kernels.recolour(row.data(), matrix, width, out.data());
      if (out != expected) ++wrong;
      kernels.recolour(row.data(), matrix, width, row.data());
      if (row != expected) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace forebay::test_operations
