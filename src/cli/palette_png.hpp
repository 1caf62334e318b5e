#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drawing.hpp"

namespace forebay {

// A PNG file with a palette: the same bytes for the same indices. `indices`: rows of `width`, from the top, each below
// palette.size(). Throws Error if the library refuses.
[[nodiscard]] std::vector<std::byte> encode_palette_png(int width, std::span<const std::uint8_t> indices,
                                                        std::span<const Colour> palette);

}  // namespace forebay
