#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "jpeg/coefficients.hpp"
#include "table_set.hpp"

namespace forebay::pack {

// The division of an image into tiles: rectangles of MCUs, each coded independently, so that a region is decoded from
// some of them.
//
// In a tile the blocks of each kind follow each other by rows of MCUs, in these by components, then by rows of blocks,
// from the left. A block's first coefficient is stated as a difference from the block's on its left in the tile, at the
// left edge from the block's above, and from 0 at the top.
struct TileGrid {
  // MCUs of a tile: what decoding one may take is bounded.
  static constexpr std::int32_t kMostMcus = 1024;
  // Pixels of height, of a tile that is higher than an MCU: what a row of tiles takes is bounded.
  static constexpr std::int32_t kMostHeight = 256;

  std::int32_t mcus_across = 0;  // of the image
  std::int32_t mcus_down = 0;
  std::int32_t width = 1;  // of a tile, MCUs
  std::int32_t height = 1;

  [[nodiscard]] std::int32_t across() const noexcept { return (mcus_across + width - 1) / width; }
  [[nodiscard]] std::int32_t down() const noexcept { return (mcus_down + height - 1) / height; }
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(across()) * static_cast<std::size_t>(down());
  }
  [[nodiscard]] jpeg::McuRegion tile(std::int32_t column, std::int32_t row) const noexcept {
    return {column * width, row * height, std::min((column + 1) * width, mcus_across),
            std::min((row + 1) * height, mcus_down)};
  }
};

// Components [first, end) of a kind of blocks.
struct ComponentRange {
  std::size_t first = 0;
  std::size_t end = 0;
};
[[nodiscard]] constexpr ComponentRange components_of(std::size_t kind, const jpeg::JpegFrame& frame) noexcept {
  return kind == 0 ? ComponentRange{0, 1} : ComponentRange{1, frame.components};
}

// Blocks of a kind in an MCU.
[[nodiscard]] inline std::size_t blocks_of_mcu(std::size_t kind, const jpeg::JpegFrame& frame) noexcept {
  const ComponentRange range = components_of(kind, frame);
  std::int32_t blocks = 0;
  for (std::size_t k = range.first; k < range.end; ++k) blocks += frame.component[k].h * frame.component[k].v;
  return static_cast<std::size_t>(blocks);
}

}  // namespace forebay::pack
