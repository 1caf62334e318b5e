#pragma once

#include <cstdint>

namespace forebay {

// A rectangle in pixels: left and top are inside, right and bottom just past it.
struct Box {
  std::int32_t left = 0;
  std::int32_t top = 0;
  std::int32_t right = 0;
  std::int32_t bottom = 0;

  [[nodiscard]] constexpr std::int32_t width() const noexcept { return right - left; }
  [[nodiscard]] constexpr std::int32_t height() const noexcept { return bottom - top; }
  friend bool operator==(const Box&, const Box&) = default;
};

// The part of its image that a sample in a batch shows: the region, mirrored or not, resized to transform.size. A
// program transforms its own targets accordingly: x in the image is at (x - region.left) * width of the batch /
// region.width(), with `mirror` measured from the right edge.
struct SampleView {
  // In pixels of the image as displayed (after EXIF), rounded; with transform.padding it may reach beyond the image.
  Box region;
  std::int32_t width = 0;  // size of that image
  std::int32_t height = 0;
  bool mirror = false;

  friend bool operator==(const SampleView&, const SampleView&) = default;
};

}  // namespace forebay
