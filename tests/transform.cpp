#include "make/transform.hpp"
#include "allocation_counter.hpp"
#include "make/conversion.hpp"
#include "make/view_axes.hpp"
#include "test.hpp"

// From an image to a sample in its slot: the choice of the region, mirroring, number formats,
// layouts and normalisation. What is drawn at random depends only on the seed, epoch and position.
namespace forebay::test_transform {
namespace {

using namespace forebay::make;
using Bytes = std::vector<std::byte>;

Image noise(std::int32_t width, std::int32_t height) {
  forebay::Random random(forebay::key64(6, width, height));
  Image image;
  image.resize(width, height);
  for (auto& pixel : image.pixels) pixel = static_cast<std::uint8_t>(random.bits());
  return image;
}

Bytes apply(const Transform& transform, const Image& image, const std::optional<Box>& box = {}, std::uint64_t epoch = 0,
            std::uint64_t position = 0) {
  Transform::Scratch scratch;
  Bytes out(transform.sample_bytes());
  transform.apply(image, box, epoch, position, out, scratch);
  return out;
}

TransformOptions plain(std::int64_t height, std::int64_t width) {
  TransformOptions options;
  options.crop = Crop::none;
  options.mirror = 0;
  options.size = {height, width};
  return options;
}

template <typename Element>
std::vector<Element> elements(const Bytes& bytes) {
  std::vector<Element> values(bytes.size() / sizeof(Element));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The stored value by its definition.
float normalise(const TransformOptions& options, std::size_t channel, double value) {
  return std::fma(static_cast<float>(value), static_cast<float>(1 / options.std[channel]),
                  static_cast<float>(-options.mean[channel] / options.std[channel]));
}

// The number represented by the bits of a 16-bit format, by the definition of IEEE 754.
double decode16(std::uint32_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = bits & ((1U << fraction_bits) - 1);
  const double sign = (bits >> 15U) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  const double significand = std::ldexp(fraction, -fraction_bits) + (exponent == 0 ? 0 : 1);
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias);
}

bool inside(const Box& region, const Box& box) {
  return region.left >= box.left && region.top >= box.top && region.right <= box.right && region.bottom <= box.bottom &&
         region.width() >= 1 && region.height() >= 1;
}

}  // namespace

TEST_CASE("16-bit formats round to nearest, ties to even, subnormals and infinity included") {
  for (const auto& [dtype, exponent_bits] : {std::pair{DType::float16, 5}, std::pair{DType::bfloat16, 8}}) {
    const std::uint32_t infinity = ((1U << static_cast<unsigned>(exponent_bits)) - 1U) << (15 - exponent_bits);
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < infinity; ++bits) {
      const double value = decode16(bits, exponent_bits);
      // The successor of the largest number is where the next binade would begin.
      const double next = bits + 1 == infinity ? value + (value - decode16(bits - 1, exponent_bits))
                                               : decode16(bits + 1, exponent_bits);
      const double middle = value + (next - value) / 2;
      const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      if (forebay::make::encode(value, dtype) != bits) ++wrong;
      if (forebay::make::encode(middle, dtype) != even) ++wrong;
      if (forebay::make::encode(std::nextafter(middle, 0.0), dtype) != bits) ++wrong;
      if (forebay::make::encode(std::nextafter(middle, 1e300), dtype) != bits + 1) ++wrong;
      if (forebay::make::encode(-middle, dtype) != (even | 0x8000U)) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK(forebay::make::encode(1e300, dtype) == infinity);
    CHECK(forebay::make::encode(-std::numeric_limits<double>::infinity(), dtype) == (infinity | 0x8000U));
    CHECK(std::isnan(decode16(forebay::make::encode(std::nan(""), dtype), exponent_bits)));
    CHECK(forebay::make::encode(5e-324, dtype) == 0);
    CHECK(forebay::make::encode(-0.0, dtype) == 0x8000U);
  }
}

TEST_CASE("16-bit numbers are rounded once, not by way of float") {
  // Just above the midpoint between 1 and the next half-precision number; float would round it to
  // the midpoint, and that would then be rounded to even.
  const double above = 1 + 0x1.0p-11 + 0x1.0p-40;
  CHECK(forebay::make::encode(above, DType::float16) == 0x3c01U);
  CHECK(forebay::make::encode(static_cast<double>(static_cast<float>(above)), DType::float16) == 0x3c00U);
}

TEST_CASE("sample_bytes counts three planes of the dtype") {
  for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8}) {
    auto options = plain(5, 7);
    options.dtype = dtype;
    CHECK(Transform(options, 1, false).sample_bytes() == std::size_t{105} * forebay::size_of(dtype));
  }
}

TEST_CASE("every dtype and layout stores the table's values in its place") {
  const auto image = noise(9, 6);
  for (const auto layout : {Layout::nchw, Layout::nhwc}) {
    for (const auto dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8}) {
      auto options = plain(6, 9);
      options.layout = layout;
      options.dtype = dtype;
      const auto out = apply(Transform(options, 1, false), image);
      int wrong = 0;
      for (std::size_t y = 0; y < 6; ++y) {
        for (std::size_t x = 0; x < 9; ++x) {
          for (std::size_t c = 0; c < 3; ++c) {
            const double value = image.row(static_cast<std::int32_t>(y))[3 * x + c];
            const std::size_t at = layout == Layout::nchw ? (c * 6 + y) * 9 + x : (y * 9 + x) * 3 + c;
            const double normalised = dtype == DType::uint8 ? value : normalise(options, c, value);
            const auto expected = forebay::make::encode(normalised, dtype);
            if (std::memcmp(&expected, out.data() + at * forebay::size_of(dtype), forebay::size_of(dtype)) != 0)
              ++wrong;
          }
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("normalised values are near (value - mean) / std") {
  Image image;
  image.resize(256, 1);
  for (std::size_t x = 0; x < 256; ++x) std::fill_n(image.row(0) + 3 * x, 3, static_cast<std::uint8_t>(x));
  const auto options = plain(1, 256);
  const auto values = elements<float>(apply(Transform(options, 1, false), image));
  double worst = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t x = 0; x < 256; ++x) {
      const double exact = (static_cast<double>(x) - options.mean[c]) / options.std[c];
      worst = std::max(worst, std::abs(exact - static_cast<double>(values[c * 256 + x])));
    }
  }
  // Three roundings of numbers below 8, each off by at most 2^-22.
  CHECK(worst < 3 * 0x1.0p-22);
  CHECK(worst > 0);
}

TEST_CASE("a box is clamped to the image, one outside of it is a bad sample") {
  const auto image = noise(20, 10);
  auto options = plain(4, 4);
  options.dtype = DType::uint8;
  const Transform transform(options, 1, false);
  CHECK(apply(transform, image, Box{-5, -5, 12, 300}) == apply(transform, image, Box{0, 0, 12, 10}));
  CHECK(apply(transform, image, Box{0, 0, 20, 10}) == apply(transform, image));
  CHECK(apply(transform, image, Box{19, 9, 20, 10}).size() == 48);
  for (const auto& box : {Box{20, 0, 25, 5}, Box{0, 10, 5, 12}, Box{-9, 0, 0, 5}, Box{0, -4, 5, 0}}) {
    CHECK_THROWS_WITH_AS(apply(transform, image, box), doctest::Contains("lies outside the image 20x10"),
                         forebay::SampleError);
  }
  CHECK_THROWS_WITH_AS(apply(transform, image, Box{20, 0, 25, 5}), doctest::Contains("box (20,0,25,5)"),
                       forebay::SampleError);
  CHECK_THROWS_WITH_AS(apply(transform, image, Box{7, 3, 7, 8}), doctest::Contains("has no area"),
                       forebay::SampleError);
  CHECK_THROWS_WITH_AS(apply(transform, image, Box{9, 3, 7, 8}), doctest::Contains("has no area"),
                       forebay::SampleError);
}

TEST_CASE("the central region has the output's ratio, scaled, centred") {
  using forebay::make::central_region;
  CHECK(central_region({0, 0, 500, 375}, 224, 224, 1.0) == Box{62, 0, 437, 375});
  CHECK(central_region({0, 0, 500, 375}, 224, 224, 0.875) == Box{86, 23, 414, 351});
  CHECK(central_region({10, 20, 110, 220}, 2, 1, 1.0) == Box{10, 95, 110, 145});
  CHECK(central_region({5, 5, 6, 6}, 224, 224, 0.875) == Box{5, 5, 6, 6});
  CHECK(central_region({0, 0, 65500, 1}, 224, 224, 0.875) == Box{32749, 0, 32750, 1});
}

TEST_CASE("regions lie inside their box, whatever is drawn") {
  Random random = testing::random_from(99);
  int outside = 0;
  for (int round = 0; round < 100'000; ++round) {
    const auto side = [&] { return 1 + static_cast<std::int32_t>(random.below(random.below(4) == 0 ? 5 : 700)); };
    const auto left = static_cast<std::int32_t>(random.below(50));
    const auto top = static_cast<std::int32_t>(random.below(50));
    const Box box{left, top, left + side(), top + side()};
    const double low = random.uniform(0.001, 1);
    const double flat = random.uniform(0.05, 3);
    const auto rule = forebay::make::region_rule({low, random.uniform(low, 1)}, {flat, flat * random.uniform(1, 10)});
    if (!inside(forebay::make::draw_region(rule, box, random), box)) ++outside;
    if (!inside(forebay::make::central_region(box, side(), side(), random.uniform(0.01, 1)), box)) ++outside;
  }
  CHECK(outside == 0);
}

TEST_CASE("area is uniform, ratio log-uniform, place uniform") {
  constexpr int kDraws = 100'000;
  constexpr int kBins = 10;
  const std::array<double, 2> scale{0.08, 0.5};
  const std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};
  const auto rule = forebay::make::region_rule(scale, ratio);
  const Box box{0, 0, 4000, 4000};  // every draw fits, so the distributions are not truncated
  std::array<int, kBins> areas{};
  std::array<int, kBins> ratios{};
  std::array<int, kBins> lefts{};
  std::array<int, kBins> tops{};
  const auto count = [&](std::array<int, kBins>& bins, double share) {
    ++bins[static_cast<std::size_t>(std::clamp(share * kBins, 0.0, kBins - 1.0))];
  };
  Random random = testing::random_from(3);
  for (int i = 0; i < kDraws; ++i) {
    const auto region = forebay::make::draw_region(rule, box, random);
    const double area = static_cast<double>(region.width()) * region.height() / (4000.0 * 4000.0);
    count(areas, (area - scale[0]) / (scale[1] - scale[0]));
    const double shape = static_cast<double>(region.width()) / region.height();
    count(ratios, std::log(shape / ratio[0]) / std::log(ratio[1] / ratio[0]));
    count(lefts, static_cast<double>(region.left) / (4001 - region.width()));
    count(tops, static_cast<double>(region.top) / (4001 - region.height()));
  }
  // Five standard deviations of a bin with a tenth of the draws, plus some for rounding to pixels.
  const double allowed = 5 * std::sqrt(kDraws * 0.1 * 0.9) + 100;
  for (const auto& bins : {areas, ratios, lefts, tops}) {
    for (const int n : bins) CHECK(std::abs(n - kDraws / kBins) < allowed);
  }
}

TEST_CASE("when no draw fits, the largest central region within the ratios is taken") {
  const auto rule = forebay::make::region_rule({0.9, 1.0}, {3.0 / 4.0, 4.0 / 3.0});
  forebay::Random random(1);
  CHECK(forebay::make::draw_region(rule, {0, 0, 1000, 30}, random) == Box{480, 0, 520, 30});
  CHECK(forebay::make::draw_region(rule, {0, 0, 30, 1000}, random) == Box{0, 480, 30, 520});
}

TEST_CASE("what is drawn depends on seed, epoch and position, and on nothing else") {
  TransformOptions options;
  options.size = {16, 16};
  const Transform transform(options, 17, false);
  const Transform again(options, 17, false);
  const Transform other(options, 18, false);
  const Box box{0, 0, 640, 480};
  int same_epoch = 0;
  int same_position = 0;
  int same_seed = 0;
  int mirrored = 0;
  constexpr int kPositions = 2000;
  for (std::uint64_t position = 0; position < kPositions; ++position) {
    const auto view = transform.choose_view(box, 0, position);
    REQUIRE(again.choose_view(box, 0, position).region == view.region);
    REQUIRE(again.choose_view(box, 0, position).mirror == view.mirror);
    if (transform.choose_view(box, 1, position).region == view.region) ++same_epoch;
    if (transform.choose_view(box, 0, position + 1).region == view.region) ++same_position;
    if (other.choose_view(box, 0, position).region == view.region) ++same_seed;
    if (view.mirror) ++mirrored;
  }
  CHECK(same_epoch < 5);
  CHECK(same_position < 5);
  CHECK(same_seed < 5);
  CHECK(std::abs(mirrored - kPositions / 2) < 120);

  const auto image = noise(64, 48);
  CHECK(apply(transform, image, {}, 3, 5) == apply(again, image, {}, 3, 5));
  CHECK(apply(transform, image, {}, 3, 5) != apply(transform, image, {}, 3, 6));
}

TEST_CASE("the same views on every machine") {
  const Transform transform(TransformOptions{}, 17, false);
  std::uint64_t hash = 0;
  for (std::uint64_t position = 0; position < 5000; ++position) {
    const auto view = transform.choose_view({3, 4, 640, 480}, 2, position);
    const Box& region = view.region;
    hash = forebay::key64(hash, region.left, region.top, region.right, region.bottom, view.mirror ? 1 : 0);
  }
  // A reference value from when this test was written.
  CHECK(hash == 6506309773945643930ULL);
}

TEST_CASE("deterministic means no mirror and the central crop") {
  TransformOptions options;
  options.size = {16, 16};
  options.mirror = 1;
  const Transform evaluation(options, 17, true);
  options.crop = Crop::center;
  const Transform center(options, 17, false);
  const Box box{0, 0, 640, 480};
  for (std::uint64_t position = 0; position < 50; ++position) {
    const auto view = evaluation.choose_view(box, 0, position);
    CHECK_FALSE(view.mirror);
    CHECK(view.axes == forebay::make::central_axes(box, 16, 16, options.center_fraction));
    CHECK(view.region == Box{107, 27, 533, 453});
    CHECK(center.choose_view(box, 0, position).region == view.region);
    CHECK(center.choose_view(box, 0, position).mirror);
  }
}

TEST_CASE("a random crop is the image's own pixels, and fill around them, at all places alike") {
  TransformOptions options;
  options.crop = Crop::random;
  options.dtype = DType::uint8;
  options.layout = Layout::nhwc;
  options.size = {7, 12};
  options.padding = {2, 1, 5, 3};
  options.fill = {9, 120, 255};
  const auto image = noise(13, 8);
  const Transform transform(options, 3, false);
  std::map<std::tuple<std::int32_t, std::int32_t, bool>, int> places;
  std::uint64_t hash = 0;
  constexpr std::uint64_t kSamples = 3000;
  for (std::uint64_t position = 0; position < kSamples; ++position) {
    const auto view = transform.view(13, 8, {}, 0, position);
    const auto shown = apply(transform, image, {}, 0, position);
    ++places[{view.region.left, view.region.top, view.mirror}];
    hash = forebay::key64(hash, view.region.left, view.region.top, view.mirror ? 1 : 0);
    int wrong = 0;
    for (std::int32_t y = 0; y < 7; ++y) {
      for (std::int32_t x = 0; x < 12; ++x) {
        const std::int32_t from_y = view.region.top + y;
        const std::int32_t from_x = view.region.left + (view.mirror ? 11 - x : x);
        const bool is_inside = from_x >= 0 && from_x < 13 && from_y >= 0 && from_y < 8;
        for (std::int32_t c = 0; c < 3; ++c) {
          const auto channel = static_cast<std::size_t>(c);
          const std::int64_t expected = is_inside ? image.row(from_y)[3 * from_x + c] : options.fill[channel];
          if (static_cast<std::int64_t>(shown[static_cast<std::size_t>(36 * y + 3 * x + c)]) != expected) ++wrong;
        }
      }
    }
    REQUIRE(wrong == 0);
  }
  CHECK(hash == 7683067368012118417ULL);  // reference value from when the test was written
  // 13 + 2 + 5 - 12 + 1 positions across, 8 + 1 + 3 - 7 + 1 down, mirrored or not.
  CHECK(places.size() == 9UL * 6 * 2);
  CHECK(std::get<0>(places.begin()->first) == -2);
  CHECK(std::get<0>(places.rbegin()->first) == 6);
  const auto fewest = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::ranges::minmax_element(places, fewest);
  CHECK(least->second > 8);  // of 28 on average
  CHECK(most->second < 56);
}

TEST_CASE("a crop is larger than its image only in the middle, and is resized from the whole") {
  TransformOptions options;
  options.crop = Crop::random;
  options.size = {40, 40};
  options.padding = {2};
  const auto reason = [&](std::int32_t width, std::int32_t height, const std::optional<Box>& box = {}) {
    return testing::error_of<SampleError>([&] { (void)Transform(options, 1, false).view(width, height, box, 0, 0); });
  };
  CHECK(reason(36, 36).empty());
  CHECK(reason(50, 35).find("54x39 pixels") != std::string::npos);
  CHECK(reason(50, 50, Box{0, 0, 30, 50}).find("less than 40x40, transform.size") != std::string::npos);
  options.resize = {16384};
  CHECK(reason(1, 17).find("more than can be resized") != std::string::npos);
  options.resize = {};
  const auto middle = Transform(options, 1, true).view(50, 35, {}, 0, 0);
  CHECK(middle.region == Box{5, -2, 45, 38});
  CHECK(middle.pixels == Box{5, 0, 45, 35});
  CHECK(Transform(options, 1, true).shrink_of(middle) == 1);
  // Both ways to express Resize(n) and CenterCrop(m) agree.
  options = {};
  options.crop = Crop::center;
  const Transform by_fraction(options, 1, true);
  options.resize = {256};
  const Transform by_side(options, 1, true);
  for (const auto& [width, height] : {std::pair{640, 480}, {333, 500}, {224, 224}, {41, 90}}) {
    CHECK(by_side.view(width, height, {}, 0, 0).axes == by_fraction.view(width, height, {}, 0, 0).axes);
  }
}

TEST_CASE("mirror turns the sample left to right") {
  auto options = plain(10, 20);
  options.dtype = DType::uint8;
  options.layout = Layout::nhwc;
  const auto image = noise(20, 10);
  options.mirror = 1;
  const auto mirrored = apply(Transform(options, 1, false), image);
  options.mirror = 0;
  const auto straight = apply(Transform(options, 1, false), image);
  int wrong = 0;
  for (std::size_t y = 0; y < 10; ++y) {
    for (std::size_t x = 0; x < 20; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        if (mirrored[(y * 20 + x) * 3 + c] != straight[(y * 20 + 19 - x) * 3 + c]) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("nothing is written outside of the sample's place") {
  for (const auto dtype : {DType::float32, DType::float16, DType::uint8}) {
    auto options = plain(5, 3);
    options.dtype = dtype;
    const Transform transform(options, 1, false);
    const auto size = transform.sample_bytes();
    Bytes slot(size + 2, std::byte{0xa5});
    Transform::Scratch scratch;
    transform.apply(noise(8, 8), {}, 0, 0, std::span(slot).subspan(1, size), scratch);  // also at an odd address
    CHECK(slot.front() == std::byte{0xa5});
    CHECK(slot.back() == std::byte{0xa5});
  }
}

TEST_CASE("a sample allocates nothing once the scratch has met its sizes") {
  TransformOptions options;
  options.size = {32, 48};
  const Transform transform(options, 17, false);
  const auto image = noise(200, 150);
  Transform::Scratch scratch;
  Bytes out(transform.sample_bytes());
  constexpr std::uint64_t kPositions = 300;
  for (std::uint64_t position = 0; position < kPositions; ++position) {
    transform.apply(image, {}, 0, position, out, scratch);
  }
  const forebay::testing::AllocationCounter allocations;
  for (std::uint64_t position = 0; position < kPositions; ++position) {
    transform.apply(image, {}, 0, position, out, scratch);
  }
  CHECK(allocations.count() == 0);
}

TEST_CASE("options that cannot be honoured name their key") {
  const auto refused = [](auto change) {
    TransformOptions options;
    change(options);
    return testing::error_of<ConfigError>([&] { const Transform transform(options, 1, false); });
  };
  CHECK(refused([](auto&) {}).empty());
  CHECK(refused([](auto& o) { o.size = {0, 224}; }).starts_with("transform.size"));
  CHECK(refused([](auto& o) { o.size = {224, 1 << 20}; }).starts_with("transform.size"));
  CHECK(refused([](auto& o) { o.scale = {0, 1}; }).starts_with("transform.scale"));
  CHECK(refused([](auto& o) { o.scale = {0.5, 1.5}; }).starts_with("transform.scale"));
  CHECK(refused([](auto& o) { o.ratio = {2, 1}; }).starts_with("transform.ratio"));
  CHECK(refused([](auto& o) { o.ratio = {1, std::nan("")}; }).starts_with("transform.ratio"));
  CHECK(refused([](auto& o) { o.center_fraction = 0; }).starts_with("transform.center_fraction"));
  CHECK(refused([](auto& o) { o.mirror = 1.1; }).starts_with("transform.mirror"));
  CHECK(refused([](auto& o) { o.padding = {4}; }).starts_with("transform.padding: goes with"));
  CHECK(refused([](auto& o) { o.std[1] = 0; }).starts_with("transform.std"));
  CHECK(refused([](auto& o) { o.std[0] = 1e-40; }).starts_with("transform.std"));
  CHECK(refused([](auto& o) { o.mean[2] = std::nan(""); }).starts_with("transform.mean"));
}

}  // namespace forebay::test_transform
