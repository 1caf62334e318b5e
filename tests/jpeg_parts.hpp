#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <forebay/random.hpp>

#include "make/image.hpp"
#include "make/jpeg_decoder.hpp"

// Parts of an image, compared with all of it.
namespace forebay::testing {

inline std::int32_t below(Random& random, std::int32_t bound) {
  return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(bound)));
}

inline Box random_region(Random& random, ImageSize size) {
  const auto left = below(random, size.width);
  const auto top = below(random, size.height);
  return {left, top, left + 1 + below(random, size.width - left), top + 1 + below(random, size.height - top)};
}

inline bool covers(const Box& area, const Box& region) {
  return area.left <= region.left && area.top <= region.top && area.right >= region.right &&
         area.bottom >= region.bottom;
}

// Whether `part` covers the region and all of its pixels are those of the whole image.
inline bool is_part_of(const Image& part, const Image& image, const Box& region) {
  if (part.shrink != image.shrink || !covers(part.area, region)) return false;
  if (part.area.width() != part.width * part.shrink || part.area.height() != part.height * part.shrink) return false;
  const Box in_part = part.place_of(region);
  const Box in_image = image.place_of(region);
  if (in_part.width() != in_image.width() || in_part.height() != in_image.height()) return false;
  for (std::int32_t y = 0; y < in_part.height(); ++y) {
    const auto* expected = image.row(in_image.top + y) + std::ptrdiff_t{3} * in_image.left;
    if (!std::equal(expected, expected + std::ptrdiff_t{3} * in_image.width(),
                    part.row(in_part.top + y) + std::ptrdiff_t{3} * in_part.left)) {
      return false;
    }
  }
  return true;
}

inline std::string text_of(const Box& box) {
  return "(" + std::to_string(box.left) + "," + std::to_string(box.top) + "," + std::to_string(box.right) + "," +
         std::to_string(box.bottom) + ")";
}

// Whether both images show the same in a region that both cover.
inline bool same_region(const Image& a, const Image& b, const Box& region) {
  if (!covers(a.area, region) || !covers(b.area, region)) return false;
  const auto bytes = static_cast<std::size_t>(region.width()) * 3;
  for (std::int32_t y = region.top; y < region.bottom; ++y) {
    const auto* const left = a.row(y - a.area.top) + static_cast<std::ptrdiff_t>(region.left - a.area.left) * 3;
    const auto* const right = b.row(y - b.area.top) + static_cast<std::ptrdiff_t>(region.left - b.area.left) * 3;
    if (!std::equal(left, left + bytes, right)) return false;
  }
  return true;
}

}  // namespace forebay::testing
