// Supplies the pixel stage with the coefficients of a packed file, one row of MCUs at a time, and
// decodes only tiles that overlap the wanted region. A row of tiles is decoded when its first row
// of MCUs is read; blocks are then taken from it row by row. Runs on a decoder thread. The memory
// of tiles is kept between images, and freed once several consecutive images have needed less.

#include "packed_coefficients.hpp"

#include <algorithm>
#include <numeric>

#include <forebay/error.hpp>

#include "byte_reader.hpp"

namespace forebay::pack {

std::size_t PackedCoefficients::held() const noexcept {
  return std::accumulate(tiles_.begin(), tiles_.end(), std::size_t{0},
                         [](std::size_t sum, const PackedTile& tile) { return sum + tile.capacity(); });
}

// A single large image must not hold its memory for the whole run, and frequent large images must
// not allocate it anew each time.
void PackedCoefficients::give_back() noexcept {
  unneeded_ = needed_ > kept_bytes_ || held() <= kept_bytes_ ? 0 : unneeded_ + 1;
  needed_ = 0;
  if (unneeded_ < kPatience) return;
  tiles_.clear();
  unneeded_ = 0;
}

// The lengths of all tiles come first, as varints; their sum must equal the rest of the bytes.
void PackedCoefficients::open(const PackedJpeg& packed, const jpeg::JpegFrame& frame) {
  give_back();
  packed_ = &packed;
  frame_ = &frame;
  grid_ = packed.grid(frame);
  tile_row_ = -1;
  if (grid_.height > 1 && grid_.height * 8 * frame.max_v > TileGrid::kMostHeight) {
    throw SampleError("damaged: a packed JPEG whose tiles are too high");
  }
  // A tile takes at least a byte, for its length.
  if (grid_.size() > packed.tiles().size()) throw SampleError("damaged: a packed JPEG without its coefficients");
  bounds_.resize(grid_.size() + 1);
  bounds_[0] = 0;
  ByteReader reader(packed.tiles());
  for (std::size_t i = 0; i < grid_.size(); ++i) bounds_[i + 1] = bounds_[i] + reader.number();
  bytes_ = reader.rest();
  if (bounds_.back() != bytes_.size())
    throw SampleError("damaged: a packed JPEG of another length than its tiles have");
  if (tiles_.size() < static_cast<std::size_t>(grid_.across())) tiles_.resize(static_cast<std::size_t>(grid_.across()));
}

void PackedCoefficients::load_tiles(std::int32_t tile_row, const jpeg::CoefficientRow& row) {
  // Grey output needs only luma, which comes first in a tile.
  const std::size_t kinds = row.components() > 1 ? kBlockKinds : 1;
  std::size_t used = 0;
  for (std::int32_t column = row.left() / grid_.width; column * grid_.width < row.right(); ++column) {
    const auto number = static_cast<std::size_t>(tile_row) * static_cast<std::size_t>(grid_.across()) +
                        static_cast<std::size_t>(column);
    tiles_[static_cast<std::size_t>(column)].load(
        *kernels_,
        {.bytes = bytes_.subspan(bounds_[number], bounds_[number + 1] - bounds_[number]),
         .readable = bytes_.data() + bytes_.size(),
         .set = &packed_->set(),
         .lanes = packed_->lanes()},
        *frame_, grid_.tile(column, tile_row), kinds);
    used += tiles_[static_cast<std::size_t>(column)].used();
  }
  needed_ = std::max(needed_, used);
  tile_row_ = tile_row;
}

bool PackedCoefficients::read(std::int32_t mcu_row, jpeg::CoefficientRow& row) {
  const std::int32_t tile_row = mcu_row / grid_.height;
  if (tile_row != tile_row_) load_tiles(tile_row, row);
  for (std::int32_t column = row.left() / grid_.width; column * grid_.width < row.right(); ++column) {
    tiles_[static_cast<std::size_t>(column)].read(*kernels_, mcu_row, row);
  }
  return true;
}

}  // namespace forebay::pack
