#pragma once

#include <cstdint>

#include "base/file_io.hpp"

namespace forebay::data {

struct ImageExtent {
  std::int32_t width = 0;
  std::int32_t height = 0;
};

// The size of an image file as it is displayed, after its EXIF turn, from its header alone: what the decoder of such a
// file will find. For annotations that are relative to it. Throws SampleError where the header does not say. Any
// thread.
[[nodiscard]] ImageExtent displayed_size(const OpenFile& file);

}  // namespace forebay::data
