#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels.hpp"
#include "pixel_math.hpp"

namespace forebay {

// Makes a PixelChange of whole rows, by the vector kernels. Immutable; any thread.
class RowChanger {
 public:
  // The change must stay. `width`: pixels of a row.
  RowChanger(const PixelChange& change, decltype(Kernels::recolour) recolour, std::size_t width) noexcept
      : change_(change), recolour_(recolour), width_(width) {}

  [[nodiscard]] bool changes(std::int32_t y) const noexcept { return change_.recolours || is_erased(y); }

  // Row y in pixels of kPixelBytes. `out` is the row itself, or has room for as many pixels elsewhere.
  void change(std::int32_t y, const std::uint8_t* row, std::uint8_t* out) const noexcept {
    if (change_.recolours) {
      recolour_(row, change_.colours, width_, out);
    } else if (out != row) {
      std::memcpy(out, row, width_ * kPixelBytes);
    }
    if (!is_erased(y)) return;
    for (std::int32_t x = change_.erased.left; x < change_.erased.right; ++x) {
      std::memcpy(out + static_cast<std::size_t>(x) * kPixelBytes, &change_.fill, kPixelBytes);
    }
  }

 private:
  [[nodiscard]] bool is_erased(std::int32_t y) const noexcept {
    return y >= change_.erased.top && y < change_.erased.bottom;
  }

  const PixelChange& change_;
  decltype(Kernels::recolour) recolour_;
  std::size_t width_;
};

}  // namespace forebay
