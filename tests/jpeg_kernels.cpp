#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <forebay/random.hpp>

#include "jpeg/coefficients.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg_parts.hpp"
#include "support.hpp"

// Each step of the own pixel stage, for every kind of processor.
namespace {

using forebay::CoefficientRow;
using forebay::PixelKernels;
using forebay::Random;
using forebay::testing::below;
using forebay::testing::kSanitized;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kUntouched = 0xa5;

}  // namespace

TEST_CASE("every kind of kernels transforms blocks as the scalar ones do, and refuses the same") {
  constexpr std::uint64_t kSeed = 42;
  constexpr std::size_t kBlocks = 8;
  MESSAGE("seed " << kSeed);
  Random random(kSeed);
  struct Line {
    alignas(64) std::array<std::int16_t, kBlocks * forebay::kBlockSize> coefficients{};
    std::array<std::uint8_t, kBlocks> extents{};
  };
  int refused = 0;
  int wrong = 0;
  constexpr int kRounds = kSanitized ? 2'000 : 20'000;
  for (int round = 0; round < kRounds; ++round) {
    alignas(16) std::array<std::uint16_t, forebay::kBlockSize> quantiser{};
    const std::int32_t most = std::array{1, 20, 255, PixelKernels::kMostQuantiser}[random.below(4)];
    for (auto& factor : quantiser) factor = static_cast<std::uint16_t>(1 + below(random, most));
    Line line;
    // From what photographs have to what only a hostile file does.
    const bool hostile = random.below(4) == 0;
    const std::int32_t span = hostile ? 65536 : std::array{2, 30, 700, 3000}[random.below(4)];
    for (std::size_t b = 0; b < kBlocks; ++b) {
      const auto count = random.below(4) == 0 ? 64 : random.below(14);
      for (std::size_t i = 0; i < count; ++i) {
        if (i > 0 && random.below(3) == 0) continue;
        const auto value = (below(random, span) - span / 2) / (hostile && random.below(8) == 0 ? 1 : most);
        line.coefficients[CoefficientRow::place_of(b) + CoefficientRow::kPlaces[i]] = static_cast<std::int16_t>(value);
        if (value != 0) line.extents[b] = static_cast<std::uint8_t>(i);
      }
    }
    const auto transformed = [&](const PixelKernels& kernels, Bytes& out) {
      Line copy = line;
      out.assign(8 * kBlocks * 8 + PixelKernels::kSlack, 0);
      const bool good = kernels.transform(copy.coefficients.data(), copy.extents.data(), kBlocks, quantiser.data(),
                                          out.data(), kBlocks * 8);
      CHECK(std::ranges::all_of(copy.coefficients, [](std::int16_t value) { return value == 0; }));
      return good;
    };
    Bytes expected;
    const bool good = transformed(forebay::scalar_pixel_kernels(), expected);
    if (!good) ++refused;
    for (const auto& kernels : forebay::supported_pixel_kernels()) {
      Bytes given;
      if (transformed(kernels, given) != good || (good && given != expected)) ++wrong;
    }
  }
  MESSAGE(refused << " lines refused");
  CHECK(wrong == 0);
  CHECK(refused > kRounds / 8);
  CHECK(refused < kRounds / 2);
}

TEST_CASE("every kind of kernels converts all colours as the scalar ones do") {
  constexpr std::size_t kCount = 256;
  Bytes luma(kCount + PixelKernels::kSlack);
  Bytes blue(luma.size());
  Bytes red(luma.size());
  const auto converted = [&](const PixelKernels& kernels, std::size_t count) {
    Bytes out(kCount * 3 + 1, kUntouched);
    const std::array<const std::uint8_t*, 3> parts{luma.data(), blue.data(), red.data()};
    kernels.from_ycc(parts.data(), count, out.data());
    return out;
  };
  int wrong = 0;
  for (std::size_t cb = 0; cb < 256; ++cb) {
    for (std::size_t i = 0; i < kCount; ++i) {
      luma[i] = static_cast<std::uint8_t>(i * 7 + cb);
      blue[i] = static_cast<std::uint8_t>(cb);
      red[i] = static_cast<std::uint8_t>(i);
    }
    const std::size_t count = cb == 0 ? kCount : kCount - cb % 100;
    const Bytes expected = converted(forebay::scalar_pixel_kernels(), count);
    for (const auto& kernels : forebay::supported_pixel_kernels()) {
      if (converted(kernels, count) != expected) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("every kind of kernels enlarges rows as the scalar ones do") {
  constexpr std::uint64_t kSeed = 43;
  constexpr std::size_t kMost = 150;
  constexpr std::size_t kMargin = 1;  // what is beside the samples
  MESSAGE("seed " << kSeed);
  Random random(kSeed);
  Bytes near(kMargin + kMost + PixelKernels::kSlack);
  Bytes far(near.size());
  std::vector<std::uint16_t> sums(kMost + PixelKernels::kSlack);
  // Three times two rows: across with a far row and without, and down.
  const auto enlarged = [&](const PixelKernels& kernels, std::size_t count, int bias) {
    std::vector<Bytes> rows(3, Bytes(2 * kMost + PixelKernels::kSlack));
    const forebay::ChromaRows both{near.data() + kMargin, far.data() + kMargin};
    kernels.double_across(both, count, sums.data(), rows[0].data());
    kernels.double_across({both.near, nullptr}, count, sums.data(), rows[1].data());
    kernels.mix_rows(both, count, bias, rows[2].data());
    for (std::size_t i = 0; i < 3; ++i) rows[i].resize(i < 2 ? 2 * count : count);
    return rows;
  };
  int wrong = 0;
  for (std::size_t count = 1; count <= kMost; ++count) {
    // Extremes first, then anything.
    for (auto* row : {&near, &far}) {
      const bool extreme = random.below(3) == 0;
      for (auto& sample : *row) sample = static_cast<std::uint8_t>(extreme ? 255 * random.below(2) : random.bits());
    }
    const int bias = 1 + below(random, 2);
    const auto expected = enlarged(forebay::scalar_pixel_kernels(), count, bias);
    for (const auto& kernels : forebay::supported_pixel_kernels()) {
      if (enlarged(kernels, count, bias) != expected) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("only kernels that give libjpeg's pixels are trusted") {
  const auto all = forebay::supported_pixel_kernels();
  CHECK(forebay::trusted_pixel_kernels() == all.data());
  std::vector<PixelKernels> candidates{all.front(), all.front(), all.front(), all.back()};
  candidates[0].mix_rows = [](const forebay::ChromaRows& rows, std::size_t count, int, std::uint8_t* out) noexcept {
    forebay::scalar_pixel_kernels().mix_rows(rows, count, 2, out);
  };
  candidates[1].from_ycc = [](const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept {
    forebay::scalar_pixel_kernels().from_rgb(parts, count, out);
  };
  candidates[2].transform = [](std::int16_t*, const std::uint8_t*, std::size_t, const std::uint16_t*, std::uint8_t*,
                               std::size_t) noexcept { return false; };
  CHECK(forebay::trusted_pixel_kernels(candidates) == &candidates[3]);
  CHECK(forebay::trusted_pixel_kernels(std::span(candidates).first(3)) == nullptr);
}

TEST_CASE("libjpeg-turbo decodes everything where no trusted kernels are faster, and the reason says so") {
  const auto all = forebay::supported_pixel_kernels();
  REQUIRE(all.size() > 1);  // every processor that the tests run on has vectors
  CHECK(forebay::choose_pixel_kernels().kernels == all.data());
  CHECK(forebay::choose_pixel_kernels().reason.empty());
  const auto plain = forebay::choose_pixel_kernels(all.last(1));
  CHECK(plain.kernels == nullptr);
  CHECK(plain.reason.find("no vector code") != std::string_view::npos);
  PixelKernels wrong = all.front();
  wrong.from_ycc = wrong.from_rgb;
  const std::vector<PixelKernels> untrusted{wrong, all.back()};
  const auto slow = forebay::choose_pixel_kernels(untrusted);
  CHECK(slow.kernels == nullptr);
  CHECK(slow.reason.find("other pixels with vector code") != std::string_view::npos);
  const auto none = forebay::choose_pixel_kernels(std::span(&wrong, 1));
  CHECK(none.kernels == nullptr);
  CHECK(none.reason.find("gives other pixels") != std::string_view::npos);
}
