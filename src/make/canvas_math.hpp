#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/device_function.hpp"
#include "canvas.hpp"
#include "resample_math.hpp"
#include "views.hpp"

// Defines the views of a serving and the coefficients of their pixels, which every CanvasRenderer
// uses. The sums are the renderer's own; all must give the same bytes (tests/twin_renderer.hpp). A
// pixel is a 32-bit word: red in the lowest byte, then green and blue; the highest byte is
// unspecified. All functions are pure; any thread may call.
namespace forebay::make {

// Maps a coordinate along one side of the image to the nearest one on the canvas.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t nearest_side(std::int32_t at, std::int32_t image,
                                                                      std::int32_t canvas) noexcept {
  return static_cast<std::int32_t>(quotient(2 * std::int64_t{at} * canvas + image, 2 * std::int64_t{image}));
}

// Maps a region of the image to its canvas, where it is at least one pixel wide and high.
// REQUIRES: region within the image and not empty; no side of the canvas above the image's.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr Box region_on_canvas(const Box& region, const CanvasInfo& info) noexcept {
  Box place{nearest_side(region.left, info.width, info.canvas_width),
            nearest_side(region.top, info.height, info.canvas_height),
            nearest_side(region.right, info.width, info.canvas_width),
            nearest_side(region.bottom, info.height, info.canvas_height)};
  if (place.left == place.right) {
    place.left = static_cast<std::int32_t>(std::int64_t{region.left} * info.canvas_width / info.width);
    place.right = place.left + 1;
  }
  if (place.top == place.bottom) {
    place.top = static_cast<std::int32_t>(std::int64_t{region.top} * info.canvas_height / info.height);
    place.bottom = place.top + 1;
  }
  return place;
}

// The info of a sample in a slot.
[[nodiscard]] FOREBAY_HOST_DEVICE inline CanvasInfo info_of(const CanvasFormat& format, const std::byte* slot,
                                                            std::uint32_t index) noexcept {
  CanvasInfo info;
  std::memcpy(&info, slot + format.infos_offset() + sizeof info * index, sizeof info);
  return info;
}

// The view of a sample in a serving, in pixels of its canvas. It is drawn in pixels of the image,
// so it does not depend on the size of the canvas.
[[nodiscard]] FOREBAY_HOST_DEVICE inline ImageView canvas_view(const RenderPlan& plan, const CanvasInfo& info,
                                                               std::uint64_t epoch, std::uint64_t position,
                                                               std::uint64_t use_index) noexcept {
  const ImageView view =
      serving_view(plan.view, plan.seed, {0, 0, info.width, info.height}, epoch, position, use_index);
  return {region_on_canvas(view.region, info), view.mirror};
}

// The changes to pixel values that the operations draw for a serving.
[[nodiscard]] FOREBAY_HOST_DEVICE inline PixelChange canvas_change(const RenderPlan& plan, std::uint64_t epoch,
                                                                   std::uint64_t position,
                                                                   std::uint64_t use_index) noexcept {
  return draw_change(plan.pixels, plan.view.width, plan.view.height,
                     operations_key(plan.seed, epoch, position, use_index));
}

// The coefficients of one output pixel along one axis, packed as pairs: two 16-bit numbers per
// word, the first in the lower half.
struct PixelTaps {
  static constexpr std::int32_t kMostPairs = kMostShrink;  // a window is twice as wide as the scale

  std::int32_t first = 0;  // the input pixel of the first coefficient
  std::int32_t taps = 0;
  std::int32_t precision = 0;
  std::array<std::uint32_t, kMostPairs> words{};

  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t pair(std::int32_t i) const noexcept {
    return words[static_cast<std::size_t>(i)];
  }
};

// The coefficients of output pixel i. REQUIRES: 0 <= i < axis.out; axis.in <= kMostShrink *
// axis.out; for a 32-bit Number also is_narrow(axis).
template <class Number = std::int64_t>
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr PixelTaps pixel_taps(const ResamplingAxis& axis, std::int32_t i) noexcept {
  std::int16_t coefficients[2 * PixelTaps::kMostPairs] = {};
  PixelTaps result;
  result.first = resample_coefficients<Number>(axis, i, coefficients);
  result.taps = axis.taps;
  result.precision = axis.precision;
  for (std::int32_t t = 0; t < axis.taps; t += 2) {
    const auto lower = static_cast<std::uint32_t>(coefficients[t]);
    const auto upper = t + 1 < axis.taps ? static_cast<std::uint32_t>(coefficients[t + 1]) : 0U;
    result.words[static_cast<std::size_t>(t / 2)] = lower | upper << 16U;
  }
  return result;
}

}  // namespace forebay::make
