#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay {

// Decoded RGB pixels, 8 bits, interleaved, rows from the top without padding: a whole image or a part of one. Reused
// from sample to sample; belongs to one thread.
struct Image {
  // A buffer larger than this is given back once it has not been needed for kPatience images in a row.
  static constexpr std::size_t kKeptBytes = std::size_t{32} << 20;
  static constexpr int kPatience = 64;

  std::int32_t width = 0;  // of the pixels that are here
  std::int32_t height = 0;
  std::vector<std::uint8_t> pixels;  // at least width * height * 3
  // Where the pixels lie in the whole image as it is displayed, in pixels of that image at full size: each one here
  // stands for shrink x shrink there, so area.width() == width * shrink. With shrink > 1 the area may reach past the
  // whole image, since its sides need not be multiples.
  Box area;
  std::int32_t shrink = 1;
  int unneeded = 0;  // images in a row that would have done with kKeptBytes

  // Makes room for a whole image of this size; the pixels are unspecified. Allocates only for more than ever before, or
  // after it gave memory back.
  void resize(std::int32_t new_width, std::int32_t new_height) {
    width = new_width;
    height = new_height;
    area = {0, 0, width, height};
    shrink = 1;
    const auto needed = static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
    unneeded = needed > kKeptBytes || pixels.capacity() <= kKeptBytes ? 0 : unneeded + 1;
    if (unneeded >= kPatience) std::vector<std::uint8_t>(kKeptBytes).swap(pixels);
    if (pixels.size() < needed) pixels.resize(needed);
  }
  // Where `region` of the whole image lies among the pixels: exactly with shrink == 1, else each side to the nearest
  // pixel, at least one pixel wide and high. REQUIRES: region within area and not empty.
  [[nodiscard]] Box place_of(const Box& region) const noexcept {
    const Box from{region.left - area.left, region.top - area.top, region.right - area.left, region.bottom - area.top};
    const auto nearest = [this](std::int32_t distance) { return (distance + shrink / 2) / shrink; };
    Box place{nearest(from.left), nearest(from.top), nearest(from.right), nearest(from.bottom)};
    if (place.left == place.right) place.right = (place.left = from.left / shrink) + 1;
    if (place.top == place.bottom) place.bottom = (place.top = from.top / shrink) + 1;
    return place;
  }
  [[nodiscard]] const std::uint8_t* row(std::int32_t y) const noexcept {
    return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3;
  }
  [[nodiscard]] std::uint8_t* row(std::int32_t y) noexcept {
    return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3;
  }
};

}  // namespace forebay
