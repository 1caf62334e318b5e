// The pixel kernels as plain loops, which define what every vector kernel must give, and the list
// of kernels that this processor can run. The arithmetic is libjpeg's (jidctint.c, jdsample.c and
// jdcolor.c): an integer DCT with 13-bit constants, "fancy" upsampling with weights 3 and 1, and
// colours in 16-bit fixed point. simd_transform.cpp and simd_rows.cpp do the same with Highway;
// tests compare them bit by bit.

#include "pixel_kernels.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "coefficients.hpp"
#include "jpeg_math.hpp"
#include "supported_kernels.hpp"

namespace forebay::jpeg {
namespace {

constexpr std::size_t kSide = CoefficientRow::kSide;
using Block = std::array<std::int32_t, kBlockSize>;

// Vector code computes in 16 bits. Values beyond these bounds would wrap around there, but not in
// libjpeg, so a block with such a value is refused, and the file goes to libjpeg-turbo.
bool lies_within(const Block& block, std::int32_t limit) noexcept {
  return std::ranges::all_of(block, [limit](std::int32_t value) { return value >= -limit && value < limit; });
}

// Columns first, then rows, as in libjpeg; the order matters because of the rounding in between.
bool transform_block(Block& block, std::uint8_t* out, std::size_t stride) noexcept {
  if (!lies_within(block, PixelKernels::kMostCoefficient + 1)) return false;
  for (std::size_t x = 0; x < kSide; ++x) inverse_dct_line(block.data() + x, kSide, kColumnShift);
  if (!lies_within(block, 16384)) return false;
  for (std::size_t y = 0; y < kSide; ++y) inverse_dct_line(block.data() + y * kSide, 1, kRowShift);
  for (std::size_t i = 0; i < kBlockSize; ++i) {
    out[i / kSide * stride + i % kSide] = jpeg_sample(block[i]);
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
      // Cleared while being read, because the row must be all zeros for the next MCU row.
      block[i] = coefficient * quantiser[i];
      coefficient = 0;
    }
    good = transform_block(block, out + b * kSide, stride) && good;
  }
  return good;
}

// libjpeg's h2v1 and h2v2 upsampling: 3/4 of the near sample and 1/4 of the far one, in both
// directions if rows are mixed as well. libjpeg rounds left and right pixels differently (8 and 7,
// 1 and 2).
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

// libjpeg's h1v2 upsampling, with a bias of 1 for upper rows and 2 for lower ones.
void mix_rows_scalar(const ChromaRows& rows, std::size_t count, int bias, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::uint8_t>((3 * rows.near[i] + rows.far[i] + bias) >> 2);
  }
}

void from_ycc_scalar(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i, out += 3) {
    const std::uint32_t pixel = ycc_word(parts[0][i], parts[1][i], parts[2][i]);
    for (std::size_t k = 0; k < 3; ++k) out[k] = static_cast<std::uint8_t>(pixel >> (8 * k));
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

}  // namespace

const PixelKernels& scalar_pixel_kernels() noexcept { return kScalarPixels; }

std::span<const PixelKernels> supported_pixel_kernels() {
  static const auto& all =
      kernels_that_run_here(kScalarPixels, &PixelKernels::transform, [](auto target, PixelKernels& kernels) {
        set_transform_kernel(target, kernels);
        set_row_kernels(target, kernels);
      });
  return all;
}

}  // namespace forebay::jpeg
