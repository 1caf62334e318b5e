#pragma once

#include <cstdint>
#include <span>

#include "image.hpp"
#include "jpeg_decoder.hpp"

namespace forebay {

// All pixels of an image that something else than JpegDecoder has decoded, as they are stored: RGB, interleaved, rows
// without padding. A view: the memory is its decoder's.
struct StoredPicture {
  std::span<const std::uint8_t> pixels;
  std::int32_t width = 0;
  std::int32_t height = 0;
  int orientation = 1;  // EXIF, 1 to 8

  // As displayed.
  [[nodiscard]] ImageSize size() const noexcept;
  // Copies at least `region` of the picture as displayed to `out`, which says in out.area what it got, like
  // JpegDecoder::decode() does. REQUIRES: region within the picture and not empty. Any thread, each with its own `out`.
  void show(const Box& region, Image& out) const;
};

}  // namespace forebay
