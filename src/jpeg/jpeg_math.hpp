#pragma once

#include <cstddef>
#include <cstdint>

#include <forebay/view.hpp>

#include "coefficients.hpp"

// Defines the pixels of a sequential JPEG file: libjpeg's accurate integer DCT, fancy upsampling,
// and colour conversion. The plain pixel kernels use these functions, and all other kernels must
// equal them. All functions are pure; any thread may call.
namespace forebay::jpeg {

// The DCT's constants are scaled by 2^13. Columns are transformed first.
constexpr int kColumnShift = 11;
constexpr int kRowShift = 18;

// One dimension of the inverse DCT: eight numbers, `step` apart, in place.
constexpr void inverse_dct_line(std::int32_t* line, std::size_t step, int shift) noexcept {
  const std::int32_t in[8] = {line[0],        line[step],     line[2 * step], line[3 * step],
                              line[4 * step], line[5 * step], line[6 * step], line[7 * step]};
  const std::int32_t middle = (in[2] + in[6]) * 4433;
  const std::int32_t even2 = middle - in[6] * 15137;
  const std::int32_t even3 = middle + in[2] * 6270;
  const std::int32_t even0 = (in[0] + in[4]) * 8192;
  const std::int32_t even1 = (in[0] - in[4]) * 8192;
  const std::int32_t even[4] = {even0 + even3, even1 + even2, even1 - even2, even0 - even3};

  const std::int32_t all = (in[1] + in[3] + in[5] + in[7]) * 9633;
  const std::int32_t third = all - (in[3] + in[7]) * 16069;
  const std::int32_t fourth = all - (in[1] + in[5]) * 3196;
  const std::int32_t outer = (in[1] + in[7]) * -7373;
  const std::int32_t inner = (in[3] + in[5]) * -20995;
  const std::int32_t odd[4] = {in[1] * 12299 + outer + fourth, in[3] * 25172 + inner + third,
                               in[5] * 16819 + inner + fourth, in[7] * 2446 + outer + third};
  const std::int32_t half = 1 << (shift - 1);
  for (std::size_t i = 0; i < 4; ++i) {
    line[i * step] = (even[i] + odd[i] + half) >> shift;
    line[(7 - i) * step] = (even[i] - odd[i] + half) >> shift;
  }
}

[[nodiscard]] constexpr std::int32_t clamped_byte(std::int32_t value) noexcept {
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

// The sample for a result of the inverse DCT.
[[nodiscard]] constexpr std::uint8_t jpeg_sample(std::int32_t value) noexcept {
  return static_cast<std::uint8_t>(clamped_byte(value + 128));
}

// A pixel is a word: red in the lowest byte, then green and blue.
[[nodiscard]] constexpr std::uint32_t rgb_word(std::int32_t red, std::int32_t green, std::int32_t blue) noexcept {
  return static_cast<std::uint32_t>(red) | static_cast<std::uint32_t>(green) << 8U |
         static_cast<std::uint32_t>(blue) << 16U;
}
[[nodiscard]] constexpr std::uint32_t ycc_word(std::int32_t luma, std::int32_t blue_chroma,
                                               std::int32_t red_chroma) noexcept {
  constexpr std::int32_t kHalf = 1 << 15;
  const std::int32_t blue = blue_chroma - 128;
  const std::int32_t red = red_chroma - 128;
  return rgb_word(clamped_byte(luma + ((91881 * red + kHalf) >> 16)),
                  clamped_byte(luma + ((-22554 * blue - 46802 * red + kHalf) >> 16)),
                  clamped_byte(luma + ((116130 * blue + kHalf) >> 16)));
}

// `repeat` repeats samples; across, down and both are libjpeg's fancy upsampling.
enum class Upsampling : std::uint8_t { none, across, down, both, repeat };

// How a component is upsampled to the size of the image.
struct Enlargement {
  Upsampling kind = Upsampling::none;
  std::int32_t across = 1;  // pixels per sample
  std::int32_t down = 1;

  [[nodiscard]] constexpr bool mixes_columns() const noexcept {
    return kind == Upsampling::across || kind == Upsampling::both;
  }
  [[nodiscard]] constexpr bool mixes_rows() const noexcept {
    return kind == Upsampling::down || kind == Upsampling::both;
  }
};

// The choice of libjpeg-turbo's jdsample.c.
[[nodiscard]] constexpr Enlargement enlargement_of(const JpegFrame& frame, std::size_t component) noexcept {
  const JpegComponent& part = frame.component[component];
  Enlargement how{Upsampling::repeat, frame.max_h / part.h, frame.max_v / part.v};
  const bool is_wide = part.width > 2;
  if (how.across == 1 && how.down == 1) how.kind = Upsampling::none;
  if (how.across == 1 && how.down == 2) how.kind = Upsampling::down;
  if (how.across == 2 && how.down == 1 && is_wide) how.kind = Upsampling::across;
  if (how.across == 2 && how.down == 2 && is_wide) how.kind = Upsampling::both;
  return how;
}

// The sample that fancy upsampling mixes into `pixel` beside its own: the next one for odd pixels,
// the previous one for even pixels, its own at the edges of the image.
[[nodiscard]] constexpr std::int32_t far_sample(std::int32_t pixel, std::int32_t samples) noexcept {
  const std::int32_t far = pixel / 2 + (pixel % 2 == 0 ? -1 : 1);
  return far < 0 ? 0 : far < samples ? far : samples - 1;
}

// Extends [first, end) to include `unit`.
constexpr void widen_to(std::int32_t& first, std::int32_t& end, std::int32_t unit) noexcept {
  first = unit < first ? unit : first;
  end = unit < end ? end : unit + 1;
}

// The MCUs that contribute to these pixels of the first `components` components. REQUIRES: the
// region is within the image and not empty; PixelStage::serves(frame, ...).
[[nodiscard]] constexpr McuRegion needed_mcus(const JpegFrame& frame, const Box& region,
                                              std::size_t components) noexcept {
  constexpr std::int32_t kSide = 8;
  const std::int32_t width = kSide * frame.max_h;
  const std::int32_t height = kSide * frame.max_v;
  McuRegion mcus{region.left / width, region.top / height, (region.right - 1) / width + 1,
                 (region.bottom - 1) / height + 1};
  for (std::size_t k = 0; k < components; ++k) {
    const JpegComponent& part = frame.component[k];
    const Enlargement how = enlargement_of(frame, k);
    if (how.mixes_columns()) {
      widen_to(mcus.left, mcus.right, far_sample(region.left, part.width) / (kSide * part.h));
      widen_to(mcus.left, mcus.right, far_sample(region.right - 1, part.width) / (kSide * part.h));
    }
    if (how.mixes_rows()) {
      widen_to(mcus.top, mcus.bottom, far_sample(region.top, part.height) / (kSide * part.v));
      widen_to(mcus.top, mcus.bottom, far_sample(region.bottom - 1, part.height) / (kSide * part.v));
    }
  }
  return mcus;
}

}  // namespace forebay::jpeg
