#include <forebay/options.hpp>

#include "make/conversion.hpp"
#include "make/kernels.hpp"
#include "make/resizer.hpp"
#include "make/transform.hpp"
#include "test.hpp"

// The vector kernels for resampling, mixing and blending rows must give the same bytes as the
// scalar ones.
namespace forebay::test_kernels {
namespace {

using namespace forebay::make;
using Stores = forebay::make::Transform::Stores;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kSeed = 20261121;

// Noise with runs of extreme values: the hardest case for rounding, and the largest sums.
Bytes noise(Random& random, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    const bool extreme = i / 37 % 3 == 0;
    bytes[i] = extreme ? (i / 111 % 2 == 0 ? 255 : 0) : static_cast<std::uint8_t>(random.bits());
  }
  return bytes;
}

std::int32_t side(Random& random, std::int32_t most) {
  const auto limit = random.below(3) == 0 ? 20 : most;
  return 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(limit)));
}

// Resamples a row that ends where its memory ends, so that AddressSanitizer detects reads past it.
Bytes resampled(const Kernels& kernels, const Bytes& row, const Columns& columns) {
  Bytes in = row;
  in.resize(row.size() + Columns::kReadAhead, 0xee);
  in.shrink_to_fit();
  Bytes out(columns.padded_width() * kPixelBytes, 0xdd);
  kernels.resample(in.data(), columns, out.data());
  out.resize(static_cast<std::size_t>(columns.table().out()) * kPixelBytes);
  return out;
}

bool same_resampled(Random& random, const Kernels& kernels, std::int32_t in, std::int32_t out) {
  Columns columns;
  columns.set(forebay::make::resampling_axis(in, out), random.below(2) == 1);
  const auto row = noise(random, static_cast<std::size_t>(in) * 3);
  return resampled(kernels, row, columns) == resampled(forebay::make::scalar_kernels(), row, columns);
}

// Whether blending `taps` rows of `count` bytes with the coefficients of output pixel `at` gives
// the same as the scalar kernels.
bool same_blend(Random& random, const Kernels& kernels, const forebay::make::Resampling& table, std::size_t count) {
  std::vector<Bytes> rows;
  std::vector<const std::uint8_t*> pointers;
  for (std::size_t t = 0; t < table.taps(); ++t) rows.push_back(noise(random, count));
  for (const auto& row : rows) pointers.push_back(row.data());
  const auto at = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(table.out())));
  const forebay::make::RowMix mix{pointers.data(), table.coefficients(at), table.taps(), table.precision()};
  Bytes given(count + 1, 0xdd);
  Bytes expected(count + 1, 0xdd);
  kernels.blend(mix, count, given.data());
  forebay::make::scalar_kernels().blend(mix, count, expected.data());
  return given == expected;
}

std::vector<std::byte> sample(const Kernels& kernels, const forebay::TransformOptions& options, const Image& image,
                              std::uint64_t position, std::size_t offset, Stores stores) {
  const forebay::make::Transform transform(options, kSeed, false, stores, kernels);
  forebay::make::Resizer scratch(kernels);
  constexpr std::size_t kLine = 64;
  const auto size = transform.sample_bytes();
  std::vector<std::byte> slot(size + offset + 2 * kLine, std::byte{0xa5});
  const auto line = (kLine - reinterpret_cast<std::uintptr_t>(slot.data()) % kLine) % kLine;
  const auto out = std::span(slot).subspan(line + offset, size);
  transform.apply(image, {}, 0, position, out, scratch);
  std::vector<std::byte> result(out.begin(), out.end());
  // Memory next to the sample must be unchanged.
  std::fill(out.begin(), out.end(), std::byte{0xa5});
  REQUIRE(std::ranges::count(slot, std::byte{0xa5}) == static_cast<std::ptrdiff_t>(slot.size()));
  return result;
}

}  // namespace

TEST_CASE("the scalar kernels are there, and last") {
  const auto all = forebay::make::supported_kernels();
  REQUIRE(!all.empty());
  std::string names;
  for (const auto& kernels : all) names += std::string(" ") + kernels.name;
  MESSAGE("kernels:" << names);
  CHECK(std::string(all.back().name) == "scalar");
  CHECK(&forebay::make::best_kernels() == all.data());
}

TEST_CASE("every kind of kernels resamples rows as the scalar ones do") {
  MESSAGE("seed " << kSeed);
  for (const auto& kernels : forebay::make::supported_kernels()) {
    CAPTURE(kernels.name);
    Random random(kSeed);
    int wrong = 0;
    // Every number of taps up to 20 and every width of a last vector; then random ones.
    for (std::int32_t out = 1; out <= 40; ++out) {
      for (std::int32_t half_taps = 1; half_taps <= 20; ++half_taps) {
        if (!same_resampled(random, kernels, std::max(1, out * half_taps / 2), out)) ++wrong;
      }
    }
    for (int round = 0; round < 2000; ++round) {
      if (!same_resampled(random, kernels, side(random, 700), side(random, 300))) ++wrong;
    }
    for (const auto& [in, out] : {std::pair{65500, 3}, std::pair{4000, 1}, std::pair{1, 500}, std::pair{2, 500}}) {
      if (!same_resampled(random, kernels, in, out)) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("every kind of kernels mixes rows as the scalar ones do") {
  MESSAGE("seed " << kSeed);
  for (const auto& kernels : forebay::make::supported_kernels()) {
    CAPTURE(kernels.name);
    Random random(kSeed);
    forebay::make::Resampling table;
    int wrong = 0;
    for (int round = 0; round < 3000; ++round) {
      const auto out = side(random, 60);
      const auto in = static_cast<std::int32_t>(random.below(12)) * out / 2 + 1;
      table.set(in, out);
      if (!same_blend(random, kernels, table, 1 + random.below(random.below(2) == 0 ? 80 : 1000))) ++wrong;
    }
    for (const auto& [in, out] : {std::pair{65500, 3}, std::pair{2, 1}, std::pair{3, 1}, std::pair{2, 3}}) {
      table.set(in, out);
      if (!same_blend(random, kernels, table, 200)) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("every kind of kernels blends halves as the scalar ones do: in float, rounded to the nearest") {
  const auto value = [](std::uint16_t half) {
    const int exponent = half >> 10 & 31;
    const double magnitude = std::ldexp((half & 1023) + (exponent > 0 ? 1024 : 0), std::max(exponent, 1) - 25);
    return (half & 0x8000) != 0 ? -magnitude : magnitude;
  };
  for (const auto& kernels : forebay::make::supported_kernels()) {
    CAPTURE(kernels.name);
    for (const float share : {0.0F, 1 / 256.0F, 0.5F, 200 / 256.0F}) {
      std::vector<std::uint16_t> one;
      std::vector<std::uint16_t> other;
      for (std::uint32_t half = 0; half <= 0xffff; ++half) {
        one.push_back(static_cast<std::uint16_t>(half));
        other.push_back(static_cast<std::uint16_t>(half * 40503U >> 3U));
        if ((one.back() & 0x7c00) == 0x7c00) one.back() = 0x7bff;  // infinity times 0 is NaN
        if ((other.back() & 0x7c00) == 0x7c00) other.back() = 1;
      }
      const std::vector<std::uint16_t> before = one;
      const std::vector<std::uint16_t> before_other = other;
      kernels.blend_halves(one.data(), other.data(), one.size(), share);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < one.size(); ++i) {
        const auto own = static_cast<float>(value(before[i]));
        const auto beside = static_cast<float>(value(before_other[i]));
        wrong += one[i] != forebay::make::encode((1 - share) * own + share * beside, DType::float16);
        wrong += other[i] != forebay::make::encode((1 - share) * beside + share * own, DType::float16);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("every coefficient of linear interpolation rounds as the scalar kernels do, for all pairs of values") {
  constexpr std::size_t kValues = 256;
  Bytes first(kValues * kValues);
  Bytes second(kValues * kValues);
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<std::uint8_t>(i / kValues);
    second[i] = static_cast<std::uint8_t>(i % kValues);
  }
  const std::array<const std::uint8_t*, 2> rows{first.data(), second.data()};
  Bytes given(first.size());
  Bytes expected(first.size());
  for (const auto& kernels : forebay::make::supported_kernels()) {
    for (int coefficient = 0; coefficient <= 1 << 14; coefficient += coefficient % 1024 < 3 ? 1 : 511) {
      const std::array coefficients{static_cast<std::int16_t>((1 << 14) - coefficient),
                                    static_cast<std::int16_t>(coefficient)};
      const forebay::make::RowMix mix{rows.data(), coefficients.data(), 2, 14};
      kernels.blend(mix, given.size(), given.data());
      forebay::make::scalar_kernels().blend(mix, expected.size(), expected.data());
      REQUIRE_MESSAGE(given == expected, kernels.name << ", coefficient " << coefficient);
    }
  }
}

TEST_CASE("whole samples are the same bytes with every kind of kernels, dtype, layout and alignment") {
  MESSAGE("seed " << kSeed);
  for (const auto& kernels : forebay::make::supported_kernels()) {
    CAPTURE(kernels.name);
    Random random(kSeed);
    int wrong = 0;
    for (int round = 0; round < 400; ++round) {
      Image image;
      image.resize(side(random, 300), side(random, 300));
      image.pixels = noise(random, static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) * 3);
      image.pixels.shrink_to_fit();
      forebay::TransformOptions options;
      // Rows of whole cache lines are written past the caches.
      options.size = {side(random, 90),
                      random.below(2) == 0 ? 64 * (1 + static_cast<std::int64_t>(random.below(2))) : side(random, 130)};
      options.dtype = std::array{DType::float32, DType::float16, DType::bfloat16, DType::uint8}[random.below(4)];
      options.layout = random.below(2) == 0 ? Layout::nchw : Layout::nhwc;
      if (random.below(4) == 0) options.channels = 1;
      if (random.below(4) == 0) options.crop = forebay::Crop::none;
      if (random.below(3) == 0) {
        options.mean = {random.uniform(0, 255), random.uniform(-9, 9), 0};
        options.std = {random.uniform(0.001, 100), 1, random.uniform(1e-6, 1e6)};
      }
      const auto offset = random.below(2) == 0 ? 0 : random.below(64);
      const auto position = random.bits();
      const auto expected = sample(forebay::make::scalar_kernels(), options, image, position, 0, Stores::normal);
      for (const auto stores : {Stores::normal, Stores::streaming}) {
        if (sample(kernels, options, image, position, offset, stores) != expected) ++wrong;
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace forebay::test_kernels
