#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <forebay/dataset.hpp>
#include <forebay/random.hpp>

#include "base/device_function.hpp"
#include "views.hpp"

// The operations "colour" and "erase" on one pixel, for host and device. This is the definition
// that the vector kernels and the CUDA kernels reproduce byte for byte. Random numbers are drawn in
// double precision under the rules of views.hpp; pixels are computed in integers. A pixel is a
// word, as in canvas_math.hpp. All functions are pure; any thread may call.
namespace forebay::make {

// Keeps the random numbers of operations distinct from others of the same seed, epoch and position.
constexpr std::uint64_t kOperations = 0x6f7065726174;

// The key of the random numbers of a sample's operations in one use.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint64_t operations_key(std::uint64_t seed, std::uint64_t epoch,
                                                                         std::uint64_t position,
                                                                         std::uint64_t use_index) noexcept {
  return key64(seed, kOperations, epoch, position, use_index);
}

// The random numbers of the operation at a place in transform.operations.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr Random operation_random(std::uint64_t key, std::uint32_t place) noexcept {
  return Random(key64(key, place));
}

// The ranges of ColourOptions: how far factors may differ from 1, the hue from 0 (in turns), and
// the probability of grey.
struct ColourRule {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
  double grey = 0;
};

struct EraseRule {
  double probability = 0;
  RegionRule region{};     // share of the view's area, and width / height
  std::uint32_t fill = 0;  // the pixel to fill with
};

// The operations applied to each pixel as it is stored: colour, then erase. The places are their
// indices in transform.operations.
struct PixelRule {
  bool has_colour = false;
  bool has_erase = false;
  std::uint32_t colour_place = 0;
  std::uint32_t erase_place = 0;
  ColourRule colour;
  EraseRule erase;

  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr bool any() const noexcept { return has_colour || has_erase; }
};

// An affine transform of colours in fixed point. Each row gives one channel of the new pixel from
// the old red, green, blue and 1. The last number includes one half, so that truncation rounds to
// nearest.
struct ColourMatrix {
  static constexpr std::int32_t kPrecision = 16;
  // Factors of at most 2 for brightness, contrast and saturation keep every sum within 32 bits: the
  // absolute values of a row sum to less than 2 * 2 * (1 + 2 * (1 + 3)) = 36 times 2^16, and pixels
  // are at most 255.
  static constexpr double kUnit = 1 << kPrecision;
  static_assert(36.0 * kUnit * 255.0 + 256.0 * kUnit < 2147483647.0);

  std::array<std::array<std::int32_t, 4>, 3> rows{};
};

[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t mixed_channel(const std::array<std::int32_t, 4>& row,
                                                                        std::int32_t red, std::int32_t green,
                                                                        std::int32_t blue) noexcept {
  const std::int32_t value = (row[0] * red + row[1] * green + row[2] * blue + row[3]) >> ColourMatrix::kPrecision;
  return static_cast<std::uint32_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t recoloured(const ColourMatrix& matrix,
                                                                     std::uint32_t pixel) noexcept {
  const auto red = static_cast<std::int32_t>(pixel & 0xffU);
  const auto green = static_cast<std::int32_t>(pixel >> 8U & 0xffU);
  const auto blue = static_cast<std::int32_t>(pixel >> 16U & 0xffU);
  return mixed_channel(matrix.rows[0], red, green, blue) | mixed_channel(matrix.rows[1], red, green, blue) << 8U |
         mixed_channel(matrix.rows[2], red, green, blue) << 16U;
}

struct Direction {
  double cosine = 1;
  double sine = 0;
};

// Sine and cosine of an angle from -0.5 to 0.5 turns, to about 13 digits, by Taylor series within
// an eighth of a turn. The standard functions are not used because their last digit depends on the
// library.
[[nodiscard]] FOREBAY_HOST_DEVICE inline Direction direction(double turns) noexcept {
  constexpr double kTurn = 6.283185307179586;
  const double quarters = std::floor(4 * turns + 0.5);
  const double x = kTurn * (turns - 0.25 * quarters);
  const double y = x * x;
  const double sine = x * (1 - y / 6 * (1 - y / 20 * (1 - y / 42 * (1 - y / 72 * (1 - y / 110 * (1 - y / 156))))));
  const double cosine = 1 - y / 2 * (1 - y / 12 * (1 - y / 30 * (1 - y / 56 * (1 - y / 90 * (1 - y / 132)))));
  switch (static_cast<std::int32_t>(quarters) & 3) {
    case 1: return {-sine, cosine};
    case 2: return {-cosine, -sine};
    case 3: return {sine, -cosine};
    default: return {cosine, sine};
  }
}

// Factors of the colour changes: brightness, then contrast, saturation, and a rotation of the hue.
struct ColourFactors {
  double brightness = 1;
  double contrast = 1;
  double saturation = 1;
  double hue = 0;  // turns
};

[[nodiscard]] FOREBAY_HOST_DEVICE constexpr ColourFactors draw_factors(const ColourRule& rule, Random random) noexcept {
  ColourFactors factors;
  factors.brightness = random.uniform(1 - rule.brightness, 1 + rule.brightness);
  factors.contrast = random.uniform(1 - rule.contrast, 1 + rule.contrast);
  factors.saturation = random.uniform(1 - rule.saturation, 1 + rule.saturation);
  factors.hue = random.uniform(-rule.hue, rule.hue);
  if (random.uniform() < rule.grey) factors.saturation = 0;
  return factors;
}

[[nodiscard]] FOREBAY_HOST_DEVICE inline std::int32_t fixed_point(double value) noexcept {
  return static_cast<std::int32_t>(std::floor(value * ColourMatrix::kUnit + 0.5));
}

// A colour is its luma plus its distance from the grey of the same luma. Brightness and contrast
// scale both, contrast about 127.5. Saturation scales the distance. Hue rotates it in the plane of
// U and V of ITU-R BT.601, which is also that of I and Q. Saturation and hue leave grey unchanged.
// So all of it is one matrix,
//   contrast * brightness * (L + saturation * (cos * (1 - L) + sin * T)),
// where each row of L is the luma weights and T is the derivative of the rotation
// (docs/operations.md).
[[nodiscard]] FOREBAY_HOST_DEVICE inline ColourMatrix colour_matrix(const ColourFactors& factors) noexcept {
  constexpr double kRed = 0.299;
  constexpr double kGreen = 0.587;
  constexpr double kBlue = 0.114;
  constexpr double kVOverU = (0.615 / (1 - kRed)) / (0.436 / (1 - kBlue));
  constexpr double kLuma[3] = {kRed, kGreen, kBlue};
  // R - Y and B - Y rotate into each other; green follows from the luma staying the same.
  constexpr double kRedTurn[3] = {-kRed / kVOverU, -kGreen / kVOverU, (1 - kBlue) / kVOverU};
  constexpr double kBlueTurn[3] = {-(1 - kRed) * kVOverU, kGreen * kVOverU, kBlue * kVOverU};
  const Direction angle = direction(factors.hue);
  const double gain = factors.contrast * factors.brightness;
  ColourMatrix matrix;
  for (std::size_t in = 0; in < 3; ++in) {
    const double turns[3] = {kRedTurn[in], -(kRed * kRedTurn[in] + kBlue * kBlueTurn[in]) / kGreen, kBlueTurn[in]};
    for (std::size_t out = 0; out < 3; ++out) {
      const double colour = (in == out ? 1.0 : 0.0) - kLuma[in];
      const double turned = angle.cosine * colour + angle.sine * turns[out];
      matrix.rows[out][in] = fixed_point(gain * (kLuma[in] + factors.saturation * turned));
    }
  }
  for (auto& row : matrix.rows) row[3] = fixed_point((1 - factors.contrast) * 127.5 + 0.5);
  return matrix;
}

// The rectangle to erase in a view of this size; empty if there is none. A side longer than the
// view's is shortened to it.
[[nodiscard]] FOREBAY_HOST_DEVICE inline Box draw_erased(const EraseRule& rule, std::int32_t width, std::int32_t height,
                                                         Random random) noexcept {
  if (!(random.uniform() < rule.probability)) return {};
  const double area = static_cast<double>(width) * height * random.uniform(rule.region.scale[0], rule.region.scale[1]);
  const double ratio = draw_ratio(rule.region, random);
  const std::int32_t across = whole_side(std::sqrt(area * ratio), width);
  const std::int32_t down = whole_side(std::sqrt(area / ratio), height);
  const auto left = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(width - across) + 1));
  const auto top = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(height - down) + 1));
  return {left, top, left + across, top + down};
}

// The changes to the pixel values of one view.
struct PixelChange {
  ColourMatrix colours;
  Box erased{};  // in pixels of the result
  std::uint32_t fill = 0;
  bool recolours = false;
};

// `key`: operations_key().
[[nodiscard]] FOREBAY_HOST_DEVICE inline PixelChange draw_change(const PixelRule& rule, std::int32_t width,
                                                                 std::int32_t height, std::uint64_t key) noexcept {
  PixelChange change;
  change.recolours = rule.has_colour;
  if (rule.has_colour) {
    change.colours = colour_matrix(draw_factors(rule.colour, operation_random(key, rule.colour_place)));
  }
  if (rule.has_erase) {
    change.erased = draw_erased(rule.erase, width, height, operation_random(key, rule.erase_place));
    change.fill = rule.erase.fill;
  }
  return change;
}

// The pixel at column x and row y of the result.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t changed_pixel(const PixelChange& change, std::int32_t x,
                                                                        std::int32_t y, std::uint32_t pixel) noexcept {
  const Box& erased = change.erased;
  if (y >= erased.top && y < erased.bottom && x >= erased.left && x < erased.right) return change.fill;
  return change.recolours ? recoloured(change.colours, pixel) : pixel;
}

}  // namespace forebay::make
