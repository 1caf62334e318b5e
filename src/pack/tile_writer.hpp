#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "jpeg/coefficients.hpp"
#include "table_set.hpp"
#include "tiles.hpp"

namespace forebay::pack {

// The streams of an image's tiles before coding. For one thread.
class TileStreams {
 public:
  // Values instead of symbols, because the code decides which values have a word.
  using Tile = PerStream<std::vector<std::int16_t>>;

  // `frame` must stay valid.
  void begin(const jpeg::JpegFrame& frame, const TileGrid& grid);
  // Adds a row of MCUs, with all columns; called from the top. REQUIRES: row.components() ==
  // frame.components.
  void add(std::int32_t mcu_row, jpeg::CoefficientRow& row);

  [[nodiscard]] const TileGrid& grid() const noexcept { return grid_; }
  [[nodiscard]] const Tile& tile(std::size_t number) const noexcept { return tiles_[number]; }
  // The counts of all tiles together.
  [[nodiscard]] const StreamCounts& counts() const noexcept { return counts_; }

 private:
  void add_block(std::size_t kind, std::int16_t difference, const std::int16_t* block, std::size_t extent, Tile& tile);
  void add_value(std::size_t kind, Stream stream, std::int32_t value, Tile& tile);

  const jpeg::JpegFrame* frame_ = nullptr;
  TileGrid grid_;
  std::vector<Tile> tiles_;  // reused; there may be more tiles than grid_ has
  // The first coefficient of the first block of the row above, by column of tiles and component.
  std::vector<std::array<std::int16_t, jpeg::JpegFrame::kMostComponents>> above_;
  StreamCounts counts_{};
};

// Appends the bytes of a tile: with several lanes, the lengths of all but the last; the lanes; the
// values of escapes, those of the last stream first. Returns false if a symbol has no word.
[[nodiscard]] bool write_tile(const TileStreams::Tile& tile, const TableSet& set, std::size_t lanes,
                              std::vector<std::byte>& out);

}  // namespace forebay::pack
