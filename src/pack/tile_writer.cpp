// Splits the coefficients of an image into the streams of its tiles, and codes them, on the
// packer's thread. JpegStreams adds row after row of MCUs (TileStreams::add()). When all are there,
// the packer chooses a set of codes by counts() and writes each tile: the lengths of all lanes but
// the last, the lanes, and the values of escapes, those of the last stream first, so that a decoder
// finds them from the end of the tile backwards. packed_tile.cpp reads the same layout.

#include "tile_writer.hpp"

#include <algorithm>
#include <span>

#include "byte_reader.hpp"
#include "pack_kernels.hpp"

namespace forebay::pack {
namespace {

constexpr std::int32_t kLargestValue = 127;

// -128 is the escape symbol of values, so bytes hold -127 to 127.
constexpr std::uint8_t symbol_of(Stream stream, std::int32_t value) noexcept {
  if (escape_of(stream) != Escape::value) return static_cast<std::uint8_t>(value);
  const bool fits = value >= -kLargestValue && value <= kLargestValue;
  return fits ? static_cast<std::uint8_t>(value) : kEscapedValue;
}

// Writes bits, lowest bit of a byte first.
class LaneWriter {
 public:
  void put(std::uint32_t word, unsigned length) {
    buffer_ |= std::uint64_t{word} << count_;
    count_ += length;
    for (; count_ >= 8; count_ -= 8, buffer_ >>= 8U) bytes_.push_back(static_cast<std::byte>(buffer_ & 0xffU));
  }
  [[nodiscard]] const std::vector<std::byte>& finish() {
    if (count_ > 0) bytes_.push_back(static_cast<std::byte>(buffer_));
    count_ = 0;
    return bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t buffer_ = 0;
  unsigned count_ = 0;
};

// Writes values to a lane, and those without a word to `escaped`. Returns false if a symbol has no
// word.
bool write_values(std::span<const std::int16_t> values, Stream stream, const TableSet::Code& code, LaneWriter& lane,
                  std::vector<std::byte>& escaped) {
  const Escape escape = escape_of(stream);
  const std::uint8_t escape_symbol = escape == Escape::value ? kEscapedValue : kEscapedMask;
  for (const std::int16_t value : values) {
    std::uint8_t symbol = symbol_of(stream, value);
    if (escape != Escape::none && (symbol == escape_symbol || code.lengths[symbol] == 0)) {
      symbol = escape_symbol;
      const auto bits = static_cast<std::uint16_t>(value);
      escaped.push_back(static_cast<std::byte>(bits & 0xffU));
      if (escape == Escape::value) escaped.push_back(static_cast<std::byte>(bits >> 8U));
    }
    if (code.lengths[symbol] == 0) return false;
    lane.put(code.words[symbol], code.lengths[symbol]);
  }
  return true;
}

}  // namespace

void TileStreams::begin(const jpeg::JpegFrame& frame, const TileGrid& grid) {
  frame_ = &frame;
  grid_ = grid;
  if (tiles_.size() < grid.size()) tiles_.resize(grid.size());
  for (std::size_t i = 0; i < grid.size(); ++i) {
    for (auto& kind : tiles_[i]) {
      for (auto& stream : kind) stream.clear();
    }
  }
  above_.assign(static_cast<std::size_t>(grid.across()), {});
  counts_ = {};
}

// `above_` is the first DC of the row above, by column of tiles and component; the first block of a
// row is predicted from it.
void TileStreams::add(std::int32_t mcu_row, jpeg::CoefficientRow& row) {
  if (mcu_row % grid_.height == 0) std::ranges::fill(above_, decltype(above_)::value_type{});
  const auto tile_row = mcu_row / grid_.height;
  for (std::int32_t column = 0; column < grid_.across(); ++column) {
    const jpeg::McuRegion mcus = grid_.tile(column, tile_row);
    Tile& tile = tiles_[static_cast<std::size_t>(tile_row) * static_cast<std::size_t>(grid_.across()) +
                        static_cast<std::size_t>(column)];
    for (std::size_t k = 0; k < frame_->components; ++k) {
      const auto across = static_cast<std::size_t>(frame_->component[k].h);
      const std::size_t begin = static_cast<std::size_t>(mcus.left) * across;
      const std::size_t end = static_cast<std::size_t>(mcus.right) * across;
      for (std::size_t r = 0; r < static_cast<std::size_t>(frame_->component[k].v); ++r) {
        const std::int16_t* const blocks = row.blocks(k, r);
        const std::uint8_t* const extents = row.extents(k, r);
        std::int16_t& above = above_[static_cast<std::size_t>(column)][k];
        std::int16_t neighbour = above;
        for (std::size_t x = begin; x < end; ++x) {
          const std::int16_t* const block = blocks + jpeg::CoefficientRow::place_of(x);
          add_block(k == 0 ? 0 : 1, static_cast<std::int16_t>(block[0] - neighbour), block, extents[x], tile);
          neighbour = block[0];
          if (x == begin) above = neighbour;
        }
      }
    }
  }
}

void TileStreams::add_value(std::size_t kind, Stream stream, std::int32_t value, Tile& tile) {
  const auto at = static_cast<std::size_t>(stream);
  tile[kind][at].push_back(static_cast<std::int16_t>(value));
  ++counts_[kind][at][symbol_of(stream, value)];
}

// Only non-zero coefficients have values; the masks say where they are.
void TileStreams::add_block(std::size_t kind, std::int16_t difference, const std::int16_t* block, std::size_t extent,
                            Tile& tile) {
  add_value(kind, Stream::dc, difference, tile);
  std::array<std::uint8_t, 8> masks{};
  for (std::size_t k = 1; k <= extent; ++k) {
    const std::int16_t value = block[jpeg::CoefficientRow::kPlaces[k]];
    if (value == 0) continue;
    masks[k / 8] = static_cast<std::uint8_t>(masks[k / 8] | 1U << k % 8);
    add_value(kind, k < 8 ? Stream::values0 : k < 16 ? Stream::values1 : Stream::values2, value, tile);
  }
  unsigned groups = 0;
  constexpr std::array kMaskStreams{Stream::mask0, Stream::mask1, Stream::mask2};
  for (std::size_t i = 0; i < masks.size(); ++i) {
    if (masks[i] == 0) continue;
    groups |= 1U << i;
    add_value(kind, i < kMaskStreams.size() ? kMaskStreams[i] : Stream::masks, masks[i], tile);
  }
  add_value(kind, Stream::groups, static_cast<std::int32_t>(groups), tile);
}

bool write_tile(const TileStreams::Tile& tile, const TableSet& set, std::size_t lanes, std::vector<std::byte>& out) {
  std::vector<LaneWriter> writers(lanes);
  std::vector<std::vector<std::byte>> escaped;
  for (std::size_t kind = 0; kind < kBlockKinds; ++kind) {
    for (std::size_t s = 0; s < kStreams; ++s) {
      const auto stream = static_cast<Stream>(s);
      const std::span<const std::int16_t> values = tile[kind][s];
      const std::size_t length = lane_length(values.size(), lanes);
      escaped.emplace_back();
      for (std::size_t j = 0; j < lanes; ++j) {
        const std::size_t begin = std::min(j * length, values.size());
        const auto part = values.subspan(begin, std::min(length, values.size() - begin));
        if (!write_values(part, stream, set.code(kind, stream), writers[j], escaped.back())) return false;
      }
    }
  }
  for (std::size_t j = 0; j + 1 < lanes; ++j) put_varint(out, static_cast<std::uint32_t>(writers[j].finish().size()));
  for (LaneWriter& writer : writers) put_bytes(out, writer.finish());
  for (std::size_t last = escaped.size(); last > 0; --last) put_bytes(out, escaped[last - 1]);
  return true;
}

}  // namespace forebay::pack
