#pragma once

#include <cstdint>

namespace forebay {

// A region of an image in pixels: left and top inside it, right and bottom just past it.
struct Box {
  std::int32_t left = 0;
  std::int32_t top = 0;
  std::int32_t right = 0;
  std::int32_t bottom = 0;

  [[nodiscard]] constexpr std::int32_t width() const noexcept { return right - left; }
  [[nodiscard]] constexpr std::int32_t height() const noexcept { return bottom - top; }
  friend bool operator==(const Box&, const Box&) = default;
};

// What a sample of a batch shows of its image: the region, mirrored or not, resized to transform.size. A target of the
// program's own follows it: x of the image is at (x - region.left) * width of the batch / region.width(), and with
// `mirror` at that distance from the right edge.
struct SampleView {
  // In pixels of the image as displayed (after EXIF), to the nearest; with transform.padding it may reach beyond.
  Box region;
  std::int32_t width = 0;  // of that image
  std::int32_t height = 0;
  bool mirror = false;

  friend bool operator==(const SampleView&, const SampleView&) = default;
};

}  // namespace forebay
