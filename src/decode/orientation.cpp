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

}  // namespace

void place_rows(std::span<const std::uint8_t> rows, std::int32_t first, std::int32_t count, std::int32_t stored_width,
                std::int32_t stored_height, int orientation, Image& out) noexcept {
  // Where the stored image's left side and top end up decides everything: columns run right to left for 2, 3, 7, 8
  // and rows bottom to top for 3, 4, 6, 7 (CIPA DC-008, tag 0x0112).
  const bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
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
