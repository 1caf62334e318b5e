#pragma once

#include <cstddef>
#include <vector>

#include "drawing.hpp"

namespace forebay {

// A baseline JPEG file, 4:2:0, the integer DCT: the same bytes for the same pixels. quality: 1 to 100.
// Throws Error when the library refuses.
[[nodiscard]] std::vector<std::byte> encode_jpeg(const RgbImage& image, int quality);

}  // namespace forebay
