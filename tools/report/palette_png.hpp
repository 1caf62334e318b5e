#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forebay::report {

// A PNG file with a palette (red, green, blue, 0 to 255): the same bytes for the same indices. `indices`: rows of
// `width`, from the top, each below palette.size(). Throws Error if the library refuses.
[[nodiscard]] std::vector<std::byte> encode_palette_png(int width, std::span<const std::uint8_t> indices,
                                                        std::span<const std::array<float, 3>> palette);

}  // namespace forebay::report
