// How an 8-bit value becomes an element of a tensor: fma(value, 1 / std, -mean / std) in float,
// then conversion to the element type. A table of all 256 results per channel defines the outcome.
// Vector kernels compute instead of looking up; they are used only if a trial at startup shows that
// they reproduce the table (trusted_convert()). checked() refuses options for which the arithmetic
// would not hold. All of this is computed once per run.

#include "conversion.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "resample.hpp"
#include "view_axes.hpp"

namespace forebay::make {
namespace {

void require(bool holds, const char* message) {
  if (!holds) throw ConfigError(message);
}

// Phrased such that NaN fails.
bool is_positive_range(const std::array<double, 2>& range) {
  return range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1]);
}

// scales() are the factors that a pixel value is multiplied by, offsets() what is then added.
std::array<float, 3> scales(const TransformOptions& options) {
  std::array<float, 3> values{};
  for (std::size_t channel = 0; channel < 3; ++channel) values[channel] = static_cast<float>(1 / options.std[channel]);
  return values;
}

std::array<float, 3> offsets(const TransformOptions& options) {
  std::array<float, 3> values{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    values[channel] = static_cast<float>(-options.mean[channel] / options.std[channel]);
  }
  return values;
}

decltype(Kernels::convert) convert_of(const Kernels& kernels, const Conversion& conversion) noexcept {
  return conversion.channels == 1 ? kernels.convert_grey : kernels.convert;
}

// Whether the kernel reproduces the table; tries every value of every channel. A processor may
// round differently from IEEE 754; then the scalar kernel is used.
bool reproduces_table(decltype(Kernels::convert) convert, Conversion conversion) {
  constexpr std::size_t kValues = 256;
  std::array<std::uint8_t, kValues * kPixelBytes> row{};
  for (std::size_t value = 0; value < kValues; ++value) {
    std::fill_n(row.data() + value * kPixelBytes, 3, static_cast<std::uint8_t>(value));
  }
  conversion.width = conversion.plane = kValues;
  conversion.stream = false;
  std::array<std::byte, 3 * kValues * 4> given{};
  std::array<std::byte, 3 * kValues * 4> expected{};
  convert(row.data(), conversion, given.data());
  convert_of(scalar_kernels(), conversion)(row.data(), conversion, expected.data());
  return given == expected;
}

constexpr int kDoubleFraction = 52;
constexpr int kDoubleBias = 1023;

// Shifts right, rounding to nearest, ties to even. REQUIRES: shift >= 1.
std::uint64_t shift_rounded(std::uint64_t value, int shift) noexcept {
  if (shift > 63) return 0;
  const std::uint64_t kept = value >> shift;
  const std::uint64_t lost = value & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return kept + ((lost > half || (lost == half && (kept & 1U) != 0)) ? 1 : 0);
}

// `value` in a 16-bit binary format: 5 exponent bits for IEEE half, 8 for bfloat16. Rounds once,
// from double, to nearest, ties to even; by way of float it would round twice.
std::uint32_t encode16(double value, int exponent_bits) noexcept {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t infinity = ((1U << static_cast<unsigned>(exponent_bits)) - 1U) << fraction_bits;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 63) << 15U;
  if (std::isnan(value)) return sign | infinity | 1U << (fraction_bits - 1);
  if (std::isinf(value)) return sign | infinity;

  const auto stored_exponent = static_cast<int>(bits >> kDoubleFraction & 0x7ffU);
  // Doubles too small to be normal are far below half of the smallest 16-bit number.
  if (stored_exponent == 0) return sign;
  const std::uint64_t significand = (bits & ((std::uint64_t{1} << kDoubleFraction) - 1)) | std::uint64_t{1} << 52U;
  const int exponent = stored_exponent - kDoubleBias + bias;
  const int shift = kDoubleFraction - fraction_bits;
  // A carry out of the fraction goes into the exponent, which is what rounding up to the next
  // binade means. The significand's leading one adds 1 to the exponent field, hence exponent - 1.
  const std::uint64_t magnitude =
      exponent >= 1 ? (static_cast<std::uint64_t>(exponent - 1) << fraction_bits) + shift_rounded(significand, shift)
                    : shift_rounded(significand, shift + 1 - exponent);
  return sign | (magnitude >= infinity ? infinity : static_cast<std::uint32_t>(magnitude));
}

}  // namespace

const TransformOptions& checked(const TransformOptions& options) {
  for (const auto side : options.size) {
    require(side >= 1 && side <= Resampling::kMaxSide, "transform.size: height and width must be 1 to 262144");
  }
  require(options.channels == 1 || options.channels == 3, "transform.channels: images have 3 channels or 1");
  require(options.channels == 3 || options.when == When::enqueue,
          "transform.channels = 1 does not go with transform.when = \"dequeue\"");
  require(options.dtype <= DType::uint8, "transform.dtype: images are float32, float16, bfloat16 or uint8");
  require(is_positive_range(options.scale) && options.scale[1] <= 1,
          "transform.scale must be [low, high] with 0 < low <= high <= 1");
  require(is_positive_range(options.ratio), "transform.ratio must be [low, high] with 0 < low <= high");
  require(options.center_fraction > 0 && options.center_fraction <= 1,
          "transform.center_fraction must be more than 0 and at most 1");
  require(options.mirror >= 0 && options.mirror <= 1, "transform.mirror is a probability: 0 to 1");
  if (const std::string problem = crop_problem(options); !problem.empty()) throw ConfigError(problem);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    require(std::isfinite(options.mean[channel]), "transform.mean must be finite numbers");
    require(std::isfinite(options.std[channel]) && options.std[channel] > 0, "transform.std must be more than 0");
    require(std::isfinite(scales(options)[channel]) && std::isfinite(offsets(options)[channel]),
            "transform.std is so small that 1 / std or mean / std is no float32 number");
  }
  return options;
}

// The schema checks the range of each key by itself; this function checks how keys go together.
// Canvases are rendered by a ViewRule, also on devices. A ViewRule only describes regions in whole
// pixels within the image, so canvases exclude crop = "random" and resize.
std::string crop_problem(const TransformOptions& options) {
  const std::vector<std::int64_t>& resize = options.resize;
  const std::vector<std::int64_t>& padding = options.padding;
  const std::vector<std::int64_t>& fill = options.fill;
  const bool is_random = options.crop == Crop::random;
  if (resize.size() > 2) return "transform.resize: expected [shorter side] or [height, width], found more";
  if (padding.size() == 3 || padding.size() > 4) {
    return "transform.padding: expected [all], [left and right, top and bottom] or [left, top, right, bottom]";
  }
  if (fill.size() == 2 || fill.size() > 3) return "transform.fill: expected [red, green, blue] or [all]";
  if (!resize.empty() && !is_random && options.crop != Crop::center) {
    return "transform.resize: goes with transform.crop = \"center\" or \"random\", which cut transform.size out of "
           "the resized image; the others resize to transform.size: leave it out";
  }
  if (!padding.empty() && !is_random) {
    return "transform.padding: goes with transform.crop = \"random\"; the others do not reach beyond the image: leave "
           "it out";
  }
  if (!fill.empty() && !is_random && resize.empty()) {
    return "transform.fill: goes with transform.crop = \"random\", or \"center\" with transform.resize; the others "
           "show "
           "nothing but the image: leave it out";
  }
  if (options.when == When::dequeue && (is_random || !resize.empty())) {
    return std::string(is_random ? "transform.crop" : "transform.resize") +
           ": cutting pixel for pixel does not go with transform.when = \"dequeue\", whose canvases are made smaller: "
           "set transform.when = \"enqueue\"";
  }
  const std::array<std::int64_t, 4> border = border_of(padding);  // left, top, right, bottom
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t size = options.size[1 - i % 2];
    if (border[i] < size) continue;
    return "transform.padding: a crop could lie wholly outside of the image: make it less than transform.size, " +
           std::to_string(size);
  }
  for (std::size_t i = 0; is_random && resize.size() == 2 && i < 2; ++i) {
    if (options.size[i] <= resize[i] + border[1 - i] + border[3 - i]) continue;
    return "transform.size: is larger than transform.resize with transform.padding, out of which it is to be cut";
  }
  return "";
}

ViewRule view_rule(const TransformOptions& options, bool deterministic) noexcept {
  const auto kind_of = [&] {
    switch (options.crop) {
      case Crop::none: return ViewRule::Kind::whole;
      case Crop::random:  // drawn by its own CropRule
      case Crop::center: return ViewRule::Kind::center;
      case Crop::random_resized: return deterministic ? ViewRule::Kind::center : ViewRule::Kind::random;
    }
    return ViewRule::Kind::whole;
  };
  return {.kind = kind_of(),
          .width = static_cast<std::int32_t>(options.size[1]),
          .height = static_cast<std::int32_t>(options.size[0]),
          .center_fraction = options.center_fraction,
          .mirror = deterministic ? 0 : options.mirror,
          .random = region_rule(options.scale, options.ratio)};
}

Conversion conversion_of(const TransformOptions& options, bool stream) noexcept {
  Conversion conversion;
  conversion.dtype = options.dtype;
  conversion.layout = options.layout;
  conversion.channels = static_cast<std::size_t>(options.channels);
  conversion.width = static_cast<std::size_t>(options.size[1]);
  conversion.plane = static_cast<std::size_t>(options.size[0]) * conversion.width;
  conversion.stream = stream;
  conversion.scale = scales(options);
  conversion.offset = offsets(options);
  conversion.table = element_table(conversion.scale, conversion.offset, options.dtype);
  return conversion;
}

// uint8 tensors are not normalised: bytes stay as they are.
Conversion::Table element_table(const std::array<float, 3>& scale, const std::array<float, 3>& offset,
                                DType dtype) noexcept {
  Conversion::Table table{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t value = 0; value < 256; ++value) {
      const float normalised = std::fma(static_cast<float>(value), scale[channel], offset[channel]);
      table[channel][value] = encode(dtype == DType::uint8 ? static_cast<double>(value) : normalised, dtype);
    }
  }
  return table;
}

decltype(Kernels::convert) trusted_convert(const Kernels& kernels, const Conversion& conversion) noexcept {
  const auto convert = convert_of(kernels, conversion);
  return reproduces_table(convert, conversion) ? convert : convert_of(scalar_kernels(), conversion);
}

std::uint32_t encode(double value, DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::float16: return encode16(value, 5);
    case DType::bfloat16: return encode16(value, 8);
    case DType::uint8: return static_cast<std::uint32_t>(std::nearbyint(std::fmin(std::fmax(value, 0.0), 255.0)));
    case DType::int32:
    case DType::int64:
    case DType::float64: break;
  }
  return 0;
}

}  // namespace forebay::make
