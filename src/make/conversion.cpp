#include "conversion.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <forebay/error.hpp>

#include "number_format.hpp"
#include "resample.hpp"

namespace forebay {
namespace {

void require(bool holds, const char* message) {
  if (!holds) throw ConfigError(message);
}

// Written so that a NaN does not pass.
bool is_positive_range(const std::array<double, 2>& range) {
  return range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1]);
}

// The float numbers that a pixel value is multiplied with and that is then added.
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

// Whether the kernels compute what the table holds: every value of every channel is tried.
bool reproduces_table(const Kernels& kernels, Conversion conversion) {
  constexpr std::size_t kValues = 256;
  std::array<std::uint8_t, kValues * kPixelBytes> row{};
  for (std::size_t value = 0; value < kValues; ++value) {
    std::fill_n(row.data() + value * kPixelBytes, 3, static_cast<std::uint8_t>(value));
  }
  conversion.width = conversion.plane = kValues;
  conversion.stream = false;
  std::array<std::byte, 3 * kValues * 4> given{};
  std::array<std::byte, 3 * kValues * 4> expected{};
  kernels.convert(row.data(), conversion, given.data());
  scalar_kernels().convert(row.data(), conversion, expected.data());
  return given == expected;
}

}  // namespace

const TransformOptions& checked(const TransformOptions& options) {
  for (const auto side : options.size) {
    require(side >= 1 && side <= Resampling::kMaxSide, "transform.size: height and width must be 1 to 262144");
  }
  require(is_positive_range(options.scale) && options.scale[1] <= 1,
          "transform.scale must be [low, high] with 0 < low <= high <= 1");
  require(is_positive_range(options.ratio), "transform.ratio must be [low, high] with 0 < low <= high");
  require(options.center_fraction > 0 && options.center_fraction <= 1,
          "transform.center_fraction must be more than 0 and at most 1");
  require(options.mirror >= 0 && options.mirror <= 1, "transform.mirror is a probability: 0 to 1");
  for (std::size_t channel = 0; channel < 3; ++channel) {
    require(std::isfinite(options.mean[channel]), "transform.mean must be finite numbers");
    require(std::isfinite(options.std[channel]) && options.std[channel] > 0, "transform.std must be more than 0");
    require(std::isfinite(scales(options)[channel]) && std::isfinite(offsets(options)[channel]),
            "transform.std is so small that 1 / std or mean / std is no float32 number");
  }
  return options;
}

ViewRule view_rule(const TransformOptions& options, bool deterministic) noexcept {
  const auto kind_of = [&] {
    switch (options.crop) {
      case Crop::none: return ViewRule::Kind::whole;
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
  conversion.width = static_cast<std::size_t>(options.size[1]);
  conversion.plane = static_cast<std::size_t>(options.size[0]) * conversion.width;
  conversion.stream = stream;
  conversion.scale = scales(options);
  conversion.offset = offsets(options);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t value = 0; value < 256; ++value) {
      const float normalised =
          std::fma(static_cast<float>(value), conversion.scale[channel], conversion.offset[channel]);
      conversion.table[channel][value] =
          encode(options.dtype == DType::uint8 ? static_cast<double>(value) : normalised, options.dtype);
    }
  }
  return conversion;
}

decltype(Kernels::convert) trusted_convert(const Kernels& kernels, const Conversion& conversion) noexcept {
  return reproduces_table(kernels, conversion) ? kernels.convert : scalar_kernels().convert;
}

}  // namespace forebay
