#pragma once

#include <cstdint>
#include <optional>

#include <forebay/dataset.hpp>

namespace forebay {

// The part of `box` that lies in a width x height image; the whole image without a box. Throws SampleError for a box
// that lies outside of it or has no area, and for an image with a side above Resampling::kMaxSide. Any thread may call.
[[nodiscard]] Box clamp_to_image(const std::optional<Box>& box, std::int32_t width, std::int32_t height);

}  // namespace forebay
