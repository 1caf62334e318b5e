#include "orientation.hpp"

#include <cstddef>

namespace forebay {
namespace {

constexpr std::size_t kPixel = 3;

void copy_pixel(const std::uint8_t* from, std::uint8_t* to) noexcept {
  to[0] = from[0];
  to[1] = from[1];
  to[2] = from[2];
}

// Where the stored image's left side and top end up decides everything: columns run right to left for 2, 3, 7, 8 and
// rows bottom to top for 3, 4, 6, 7 (CIPA DC-008, tag 0x0112).
constexpr bool flips_columns(int orientation) noexcept {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
constexpr bool flips_rows(int orientation) noexcept {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

Box flipped(Box box, std::int32_t width, std::int32_t height, int orientation) noexcept {
  if (flips_columns(orientation)) box = {width - box.right, box.top, width - box.left, box.bottom};
  if (flips_rows(orientation)) box = {box.left, height - box.bottom, box.right, height - box.top};
  return box;
}

Box transposed(const Box& box) noexcept { return {box.top, box.left, box.bottom, box.right}; }

}  // namespace

Box stored_box(const Box& displayed, std::int32_t stored_width, std::int32_t stored_height, int orientation) noexcept {
  const Box box = swaps_axes(orientation) ? transposed(displayed) : displayed;
  return flipped(box, stored_width, stored_height, orientation);
}

Box displayed_box(const Box& stored, std::int32_t stored_width, std::int32_t stored_height, int orientation) noexcept {
  const Box box = flipped(stored, stored_width, stored_height, orientation);
  return swaps_axes(orientation) ? transposed(box) : box;
}

void place_rows(std::span<const std::uint8_t> rows, std::int32_t first, std::int32_t count, std::int32_t stored_width,
                std::int32_t stored_height, int orientation, Image& out) noexcept {
  const bool flip_x = flips_columns(orientation);
  const bool flip_y = flips_rows(orientation);
  const auto pixel_at = [&](std::int32_t x, std::int32_t y) {
    const auto offset = static_cast<std::size_t>(y) * static_cast<std::size_t>(stored_width);
    return rows.data() + (offset + static_cast<std::size_t>(x)) * kPixel;
  };
  if (!swaps_axes(orientation)) {
    for (std::int32_t y = 0; y < count; ++y) {
      std::uint8_t* const to = out.row(flip_y ? stored_height - 1 - (first + y) : first + y);
      for (std::int32_t x = 0; x < stored_width; ++x) {
        copy_pixel(pixel_at(x, y), to + static_cast<std::size_t>(flip_x ? stored_width - 1 - x : x) * kPixel);
      }
    }
    return;
  }
  for (std::int32_t x = 0; x < stored_width; ++x) {
    std::uint8_t* const to = out.row(flip_x ? stored_width - 1 - x : x);
    for (std::int32_t y = 0; y < count; ++y) {
      const std::int32_t column = flip_y ? stored_height - 1 - (first + y) : first + y;
      copy_pixel(pixel_at(x, y), to + static_cast<std::size_t>(column) * kPixel);
    }
  }
}

}  // namespace forebay
