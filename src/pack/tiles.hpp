#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "jpeg/coefficients.hpp"
#include "table_set.hpp"

namespace forebay::pack {

// The division of an image into tiles. A tile is a rectangle of MCUs that is coded independently of
// the others, so that a region is decoded from some of them.
//
// In a tile the blocks of each kind are ordered by rows of MCUs, within these by components, then
// by rows of blocks, from the left. The first coefficient of a block is stored as the difference
// from that of the block on its left in the tile; at the left edge from that of the block above;
// and at the top from 0.
struct TileGrid {
  // The most MCUs of a tile, which limits the cost of decoding one.
  static constexpr std::int32_t kMostMcus = 1024;
  // The greatest height in pixels of a tile that is more than one MCU high, which limits the memory
  // of a row of tiles.
  static constexpr std::int32_t kMostHeight = 256;

  std::int32_t mcus_across = 0;  // size of the image
  std::int32_t mcus_down = 0;
  std::int32_t width = 1;  // size of a tile, in MCUs
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

// The components [first, end) that a kind of block covers.
struct ComponentRange {
  std::size_t first = 0;
  std::size_t end = 0;
};
[[nodiscard]] constexpr ComponentRange components_of(std::size_t kind, const jpeg::JpegFrame& frame) noexcept {
  return kind == 0 ? ComponentRange{0, 1} : ComponentRange{1, frame.components};
}

// Blocks of a kind per MCU.
[[nodiscard]] inline std::size_t blocks_of_mcu(std::size_t kind, const jpeg::JpegFrame& frame) noexcept {
  const ComponentRange range = components_of(kind, frame);
  std::int32_t blocks = 0;
  for (std::size_t k = range.first; k < range.end; ++k) blocks += frame.component[k].h * frame.component[k].v;
  return static_cast<std::size_t>(blocks);
}

}  // namespace forebay::pack
