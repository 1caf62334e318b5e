#pragma once

#include <cstdint>

#include <forebay/view.hpp>

// EXIF orientations, 1 to 8. Where the stored image's left side and top end up decides everything:
// columns run right to left for 2, 3, 7, 8 and rows bottom to top for 3, 4, 6, 7 (CIPA DC-008, tag 0x0112).
// All functions are pure; any thread may call.
namespace forebay::make {

// 5 to 8 exchange rows and columns: the displayed image is as wide as the stored one is high.
[[nodiscard]] constexpr bool swaps_axes(int orientation) noexcept { return orientation >= 5; }

[[nodiscard]] constexpr bool flips_columns(int orientation) noexcept {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
[[nodiscard]] constexpr bool flips_rows(int orientation) noexcept {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

// The box as it lies where rows and columns that run backwards are turned round.
[[nodiscard]] constexpr Box flipped_box(Box box, std::int32_t width, std::int32_t height, int orientation) noexcept {
  if (flips_columns(orientation)) box = {width - box.right, box.top, width - box.left, box.bottom};
  if (flips_rows(orientation)) box = {box.left, height - box.bottom, box.right, height - box.top};
  return box;
}
[[nodiscard]] constexpr Box transposed_box(const Box& box) noexcept {
  return {box.top, box.left, box.bottom, box.right};
}

// The part of the stored image, of `stored_width` x `stored_height` pixels, that is displayed in `displayed`, and the
// other way round. The boxes may reach past the image.
[[nodiscard]] constexpr Box stored_box(const Box& displayed, std::int32_t stored_width, std::int32_t stored_height,
                                       int orientation) noexcept {
  return flipped_box(swaps_axes(orientation) ? transposed_box(displayed) : displayed, stored_width, stored_height,
                     orientation);
}
[[nodiscard]] constexpr Box displayed_box(const Box& stored, std::int32_t stored_width, std::int32_t stored_height,
                                          int orientation) noexcept {
  const Box box = flipped_box(stored, stored_width, stored_height, orientation);
  return swaps_axes(orientation) ? transposed_box(box) : box;
}

}  // namespace forebay::make
