// The pixel kernels as plain loops, and the list of kernels that this processor can run. The loops
// define what every vector kernel (simd_resize.cpp, simd_convert.cpp) must produce, byte for byte;
// tests/kernels.cpp compares them. Between the steps a pixel has four bytes, the fourth unused, so
// that it is one 32-bit lane.

#include "kernels.hpp"

#include <bit>
#include <cstring>
#include <vector>

#include <hwy/cache_control.h>

#include "conversion.hpp"
#include "jpeg/supported_kernels.hpp"
#include "pixel_math.hpp"

namespace forebay::make {
namespace {

constexpr std::size_t kChannels = 3;

// The coefficients sum to exactly 2^precision, so a sum fits 32 bits and the shifted result 8.
void resample_scalar(const std::uint8_t* in, const Columns& columns, std::uint8_t* out) noexcept {
  const Resampling& table = columns.table();
  const std::int32_t width = table.out();
  for (std::int32_t x = 0; x < width; ++x, out += kPixelBytes) {
    const std::int32_t at = columns.mirror() ? width - 1 - x : x;
    const std::int16_t* const coefficients = table.coefficients(at);
    const std::uint8_t* const pixels = in + static_cast<std::size_t>(table.first(at)) * kChannels;
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      std::int32_t sum = 1 << (table.precision() - 1);
      for (std::size_t t = 0; t < table.taps(); ++t) sum += coefficients[t] * pixels[t * kChannels + channel];
      out[channel] = static_cast<std::uint8_t>(sum >> table.precision());
    }
    out[kChannels] = 0;
  }
}

void blend_scalar(const RowMix& mix, std::size_t count, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t sum = 1 << (mix.precision - 1);
    for (std::size_t t = 0; t < mix.taps; ++t) sum += mix.coefficients[t] * mix.rows[t][i];
    out[i] = static_cast<std::uint8_t>(sum >> mix.precision);
  }
}

template <typename Element>
void convert_elements(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept {
  const bool planar = conversion.layout == Layout::nchw;
  const std::size_t channel_step = planar ? conversion.plane : 1;
  const std::size_t pixel_step = planar ? 1 : kChannels;
  for (std::size_t channel = 0; channel < kChannels; ++channel) {
    std::byte* to = out + channel * channel_step * sizeof(Element);
    const auto& values = conversion.table[channel];
    for (std::size_t x = 0; x < conversion.width; ++x, to += pixel_step * sizeof(Element)) {
      const auto element = static_cast<Element>(values[row[x * kPixelBytes + channel]]);
      std::memcpy(to, &element, sizeof element);
    }
  }
}

void convert_scalar(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept {
  switch (size_of(conversion.dtype)) {
    case 4: return convert_elements<std::uint32_t>(row, conversion, out);
    case 2: return convert_elements<std::uint16_t>(row, conversion, out);
    default: return convert_elements<std::uint8_t>(row, conversion, out);
  }
}

template <typename Element>
void convert_first(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept {
  for (std::size_t x = 0; x < conversion.width; ++x, out += sizeof(Element)) {
    const auto element = static_cast<Element>(conversion.table[0][row[x * kPixelBytes]]);
    std::memcpy(out, &element, sizeof element);
  }
}

// All channels are equal, so the first one is the value.
void convert_grey_scalar(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept {
  switch (size_of(conversion.dtype)) {
    case 4: return convert_first<std::uint32_t>(row, conversion, out);
    case 2: return convert_first<std::uint16_t>(row, conversion, out);
    default: return convert_first<std::uint8_t>(row, conversion, out);
  }
}

void recolour_scalar(const std::uint8_t* row, const ColourMatrix& matrix, std::size_t width,
                     std::uint8_t* out) noexcept {
  for (std::size_t at = 0; at < width * kPixelBytes; at += kPixelBytes) {
    std::uint32_t pixel = 0;
    std::memcpy(&pixel, row + at, kPixelBytes);
    pixel = recoloured(matrix, pixel);
    std::memcpy(out + at, &pixel, kPixelBytes);
  }
}

// Every half is also a float: multiplying by 2^112 corrects the exponent's bias, and an exponent of
// all ones means infinity (or NaN) in both.
float float_of(std::uint16_t half) noexcept {
  const std::uint32_t magnitude = (half & 0x7fffU) << 13U;
  const std::uint32_t infinity = magnitude < 0x0f800000U ? 0 : 0x7f800000U;
  const auto bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  return std::bit_cast<float>(bits | infinity | (half & 0x8000U) << 16U);
}

void blend_halves_scalar(std::uint16_t* one, std::uint16_t* other, std::size_t count, float share) noexcept {
  const auto blended = [share](float a, float b) {
    return static_cast<std::uint16_t>(encode((1 - share) * a + share * b, DType::float16));
  };
  for (std::size_t i = 0; i < count; ++i) {
    const float a = float_of(one[i]);
    const float b = float_of(other[i]);
    one[i] = blended(a, b);
    other[i] = blended(b, a);
  }
}

constexpr Kernels kScalar{"scalar",        resample_scalar,    blend_scalar, convert_scalar, convert_grey_scalar,
                          recolour_scalar, blend_halves_scalar};

}  // namespace

const Kernels& scalar_kernels() noexcept { return kScalar; }

std::span<const Kernels> supported_kernels() {
  static const auto& all = jpeg::kernels_that_run_here(kScalar, &Kernels::resample, [](auto target, Kernels& kernels) {
    set_resize_kernels(target, kernels);
    set_convert_kernel(target, kernels);
  });
  return all;
}

void finish_streaming() noexcept { hwy::FlushStream(); }

}  // namespace forebay::make
