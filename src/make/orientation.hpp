#pragma once

#include <cstdint>
#include <span>

#include "image.hpp"

namespace forebay {

// EXIF orientations 5 to 8 exchange rows and columns: the displayed image is as wide as the stored one is high.
[[nodiscard]] constexpr bool swaps_axes(int orientation) noexcept { return orientation >= 5; }

// The part of the stored image, of `stored_width` x `stored_height` pixels, that EXIF orientation 1 to 8 displays in
// `displayed`, and the other way round. The boxes may reach past the image. Any thread may call.
[[nodiscard]] Box stored_box(const Box& displayed, std::int32_t stored_width, std::int32_t stored_height,
                             int orientation) noexcept;
[[nodiscard]] Box displayed_box(const Box& stored, std::int32_t stored_width, std::int32_t stored_height,
                                int orientation) noexcept;

// Copies stored rows [first, first + count) of an image stored with `stored_width` x `stored_height` pixels to where
// EXIF orientation 1 to 8 displays them in `out`, whose size is the displayed one. A part of an image turns as an image
// of its own does. `rows` holds count rows of RGB
// without padding. Several rows at once make the axis-swapping orientations kind to the cache.
// Not thread safe on one `out`; never throws.
void place_rows(std::span<const std::uint8_t> rows, std::int32_t first, std::int32_t count, std::int32_t stored_width,
                std::int32_t stored_height, int orientation, Image& out) noexcept;

}  // namespace forebay
