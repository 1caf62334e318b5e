#include "pixel_kernels.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <hwy/highway.h>

#include "coefficients.hpp"

namespace forebay {
namespace {

constexpr std::size_t kSide = CoefficientRow::kSide;
using Block = std::array<std::int32_t, kBlockSize>;

// The DCT's constants, times 2^13.
constexpr int kFirstShift = 11;
constexpr int kSecondShift = 18;

// One dimension of the inverse DCT on eight numbers `step` apart, in place.
void transform_line(std::int32_t* line, std::size_t step, int shift) noexcept {
  const auto in = [&](std::size_t i) { return line[i * step]; };
  const std::int32_t middle = (in(2) + in(6)) * 4433;
  const std::int32_t even2 = middle - in(6) * 15137;
  const std::int32_t even3 = middle + in(2) * 6270;
  const std::int32_t even0 = (in(0) + in(4)) * 8192;
  const std::int32_t even1 = (in(0) - in(4)) * 8192;
  const std::array<std::int32_t, 4> even{even0 + even3, even1 + even2, even1 - even2, even0 - even3};

  const std::int32_t all = (in(1) + in(3) + in(5) + in(7)) * 9633;
  const std::int32_t third = all - (in(3) + in(7)) * 16069;
  const std::int32_t fourth = all - (in(1) + in(5)) * 3196;
  const std::int32_t outer = (in(1) + in(7)) * -7373;
  const std::int32_t inner = (in(3) + in(5)) * -20995;
  const std::array<std::int32_t, 4> odd{in(1) * 12299 + outer + fourth, in(3) * 25172 + inner + third,
                                        in(5) * 16819 + inner + fourth, in(7) * 2446 + outer + third};
  const std::int32_t half = 1 << (shift - 1);
  for (std::size_t i = 0; i < 4; ++i) {
    line[i * step] = (even[i] + odd[i] + half) >> shift;
    line[(7 - i) * step] = (even[i] - odd[i] + half) >> shift;
  }
}

bool lies_within(const Block& block, std::int32_t limit) noexcept {
  return std::ranges::all_of(block, [limit](std::int32_t value) { return value >= -limit && value < limit; });
}

bool transform_block(Block& block, std::uint8_t* out, std::size_t stride) noexcept {
  if (!lies_within(block, PixelKernels::kMostCoefficient + 1)) return false;
  for (std::size_t x = 0; x < kSide; ++x) transform_line(block.data() + x, kSide, kFirstShift);
  if (!lies_within(block, 16384)) return false;
  for (std::size_t y = 0; y < kSide; ++y) transform_line(block.data() + y * kSide, 1, kSecondShift);
  for (std::size_t i = 0; i < kBlockSize; ++i) {
    out[i / kSide * stride + i % kSide] = static_cast<std::uint8_t>(std::clamp(block[i] + 128, 0, 255));
  }
  return lies_within(block, 512);
}

bool transform_scalar(std::int16_t* blocks, const std::uint8_t* /*extents*/, std::size_t count,
                      const std::uint16_t* quantiser, std::uint8_t* out, std::size_t stride) noexcept {
  bool good = true;
  for (std::size_t b = 0; b < count; ++b) {
    Block block;
    for (std::size_t i = 0; i < kBlockSize; ++i) {
      std::int16_t& coefficient =
          blocks[CoefficientRow::place_of(b) + i / kSide * CoefficientRow::kGroup * kSide + i % kSide];
      block[i] = coefficient * quantiser[i];
      coefficient = 0;
    }
    good = transform_block(block, out + b * kSide, stride) && good;
  }
  return good;
}

void double_across_scalar(const ChromaRows& rows, std::size_t count, std::uint16_t* sums, std::uint8_t* out) noexcept {
  const bool mixes = rows.far != nullptr;
  const std::uint8_t* const near = rows.near - 1;
  const std::uint8_t* const far = mixes ? rows.far - 1 : nullptr;
  for (std::size_t i = 0; i < count + 2; ++i) {
    sums[i] = static_cast<std::uint16_t>(mixes ? 3 * near[i] + far[i] : near[i]);
  }
  const int shift = mixes ? 4 : 2;
  for (std::size_t i = 0; i < count; ++i) {
    const int own = 3 * sums[i + 1];
    out[2 * i] = static_cast<std::uint8_t>((own + sums[i] + (mixes ? 8 : 1)) >> shift);
    out[2 * i + 1] = static_cast<std::uint8_t>((own + sums[i + 2] + (mixes ? 7 : 2)) >> shift);
  }
}

void mix_rows_scalar(const ChromaRows& rows, std::size_t count, int bias, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::uint8_t>((3 * rows.near[i] + rows.far[i] + bias) >> 2);
  }
}

void from_ycc_scalar(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept {
  constexpr int kHalf = 1 << 15;
  const auto byte = [](int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); };
  for (std::size_t i = 0; i < count; ++i, out += 3) {
    const int luma = parts[0][i];
    const int blue = parts[1][i] - 128;
    const int red = parts[2][i] - 128;
    out[0] = byte(luma + ((91881 * red + kHalf) >> 16));
    out[1] = byte(luma + ((-22554 * blue - 46802 * red + kHalf) >> 16));
    out[2] = byte(luma + ((116130 * blue + kHalf) >> 16));
  }
}

void from_rgb_scalar(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i, out += 3) {
    for (std::size_t k = 0; k < 3; ++k) out[k] = parts[k][i];
  }
}

void from_grey_scalar(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) std::fill_n(out + 3 * i, 3, parts[0][i]);
}

constexpr PixelKernels kScalarPixels{"scalar",        transform_scalar, double_across_scalar, mix_rows_scalar,
                                     from_ycc_scalar, from_rgb_scalar,  from_grey_scalar};

std::vector<PixelKernels> make_supported_pixels() {
  std::vector<PixelKernels> all;
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    PixelKernels kernels = kScalarPixels;
    kernels.name = hwy::TargetName(target);
    set_transform_kernel(target, kernels);
    set_row_kernels(target, kernels);
    // Highway's target without vectors has no kernels.
    if (kernels.transform != kScalarPixels.transform) all.push_back(kernels);
  }
  all.push_back(kScalarPixels);
  return all;
}

}  // namespace

const PixelKernels& scalar_pixel_kernels() noexcept { return kScalarPixels; }

std::span<const PixelKernels> supported_pixel_kernels() {
  static const std::vector<PixelKernels> all = make_supported_pixels();
  return all;
}

}  // namespace forebay
