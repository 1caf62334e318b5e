// What "colour" and "erase" make of a pixel: their definitions, what they draw, and every kind of kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "make/kernels.hpp"
#include "make/pixel_math.hpp"

namespace forebay {
namespace {

using Colour = std::array<double, 3>;

constexpr std::uint64_t kSeed = 20261122;

std::uint32_t word_of(const Colour& colour) {
  std::uint32_t word = 0xee000000;  // the highest byte means nothing
  for (std::size_t i = 0; i < 3; ++i) word |= static_cast<std::uint32_t>(colour[i]) << (8 * i);
  return word;
}

Colour colour_of(std::uint32_t word) {
  return {static_cast<double>(word & 0xffU), static_cast<double>(word >> 8U & 0xffU),
          static_cast<double>(word >> 16U & 0xffU)};
}

double luma(const Colour& colour) { return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]; }

// The four adjustments one after the other, as books define them.
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
}  // namespace forebay
