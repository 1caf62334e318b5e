// Decodes one tile: first all streams into memory, one after the other (Loading), then blocks from
// them on demand (read()). The streams are, for each kind of block: DC differences, which eighths
// of the zigzag have coefficients, the masks of those eighths, and the values. All symbols of a
// stream precede the next stream. So the number of symbols of a stream follows from the streams
// before it, and the inner loops need not look for an end. Runs on a decoder thread.
//
// The streams of a tile are spread over lanes that are decoded side by side, because each look-up
// in a lane waits for the previous one. Values without a symbol (escapes) follow the last lane,
// those of the last stream first. Bytes may be damaged in any way: counts are bounded by what was
// decoded, and require_end() detects what does not add up.

#include "packed_tile.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include <forebay/error.hpp>

#include "block_loops.hpp"
#include "byte_reader.hpp"

namespace forebay::pack {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::align_val_t kTileAlignment{kLine};
constexpr std::size_t kTileSlack = std::max(BlockStreams::kSlack, PackKernels::kSlack);

[[noreturn]] void fail_tile() { throw SampleError("damaged: a packed JPEG whose coefficients do not fit its tables"); }

}  // namespace

void PackedTile::Free::operator()(std::uint8_t* memory) const noexcept { ::operator delete(memory, kTileAlignment); }

// Grows by at least half. What was decoded moves, so parts are kept as positions.
void PackedTile::make_room(std::size_t bytes) {
  if (used_ + bytes <= capacity_) return;
  const std::size_t capacity = std::max(used_ + bytes, capacity_ + capacity_ / 2);
  std::unique_ptr<std::uint8_t[], Free> memory(static_cast<std::uint8_t*>(::operator new(capacity, kTileAlignment)));
  if (used_ > 0) std::memcpy(memory.get(), memory_.get(), used_);
  memory_ = std::move(memory);
  capacity_ = capacity;
}

// Reads one stream after the other. Keeps positions in memory_ instead of pointers, because memory_
// may move.
class PackedTile::Loading {
 public:
  Loading(PackedTile& tile, const PackKernels& kernels, const Source& source)
      : tile_(tile), kernels_(kernels), source_(source), escaped_end_(source.bytes.size()) {
    ByteReader reader(source.bytes);
    std::array<std::size_t, kLanes> lengths{};
    for (std::size_t j = 0; j + 1 < source.lanes; ++j) lengths[j] = reader.number();
    std::size_t begin = source.bytes.size() - reader.rest().size();
    for (std::size_t j = 0; j < source.lanes; ++j) {
      lanes_[j] = {.bytes = reinterpret_cast<const std::uint8_t*>(source.bytes.data()) + begin,
                   .size = static_cast<std::size_t>(source.readable - source.bytes.data()) - begin};
      begins_[j] = begin;
      if (lengths[j] > source.bytes.size() - begin) fail_tile();
      begin += lengths[j];
    }
    lanes_begin_ = begins_[source.lanes - 1];
  }

  // Reads the streams of a kind with this many blocks. The first three eighths of the zigzag, which
  // most blocks have, have streams of their own; the other five share one.
  void load(std::size_t kind, std::size_t blocks) {
    Streams& streams = kinds_[kind];
    const Part differences = decode(kind, Stream::dc, blocks);
    streams.dc = add_differences(kind, differences, escapes(differences, kEscapedValue, 2));
    streams.groups = decode(kind, Stream::groups, blocks);
    constexpr std::array kMasks{Stream::mask0, Stream::mask1, Stream::mask2};
    for (std::size_t i = 0; i < kMasks.size(); ++i) {
      const std::size_t count = kernels_.count_bits(memory(streams.groups), blocks, kEachByte << i);
      streams.masks[i] = decode_masks(kind, kMasks[i], count);
      streams.values[i].count = kernels_.count_bits(memory(streams.masks[i]), count, kAllBits);
    }
    const std::size_t late = kernels_.count_bits(memory(streams.groups), blocks, kEachByte * kLateGroups);
    streams.late_masks = decode_masks(kind, Stream::masks, late);
    streams.values[2].count += kernels_.count_bits(memory(streams.late_masks), late, kAllBits);
    constexpr std::array kValues{Stream::values0, Stream::values1, Stream::values2};
    for (std::size_t i = 0; i < kValues.size(); ++i) {
      streams.values[i] = decode(kind, kValues[i], streams.values[i].count);
      streams.escaped[i] = escapes(streams.values[i], kEscapedValue, 2);
    }
  }

  // The streams as pointers; called when memory_ no longer moves.
  [[nodiscard]] BlockStreams streams(std::size_t kind) const noexcept {
    const Streams& from = kinds_[kind];
    BlockStreams streams{.dc = reinterpret_cast<const std::int16_t*>(memory(from.dc)),
                         .groups = memory(from.groups),
                         .late_masks = memory(from.late_masks)};
    for (std::size_t i = 0; i < from.values.size(); ++i) {
      streams.masks[i] = memory(from.masks[i]);
      streams.values[i] = memory(from.values[i]);
      streams.escaped[i] = from.escaped[i].data();
      streams.has_escaped = streams.has_escaped || !from.escaped[i].empty();
    }
    return streams;
  }

  // Checks that nothing was read beyond the tile and, if all streams were read, that nothing is
  // left of it.
  void require_end(bool is_all) const {
    for (std::size_t j = 0; j < source_.lanes; ++j) {
      const std::size_t room = (j + 1 < source_.lanes ? begins_[j + 1] : escaped_end_) - begins_[j];
      const std::size_t taken = (lanes_[j].bits_taken + 7) / 8;
      if (taken > room || (is_all && taken < room)) fail_tile();
    }
  }

 private:
  static constexpr std::uint64_t kEachByte = 0x0101010101010101;
  static constexpr std::uint64_t kAllBits = ~std::uint64_t{0};

  struct Streams {
    Part dc;
    Part groups;
    std::array<Part, 3> masks;
    Part late_masks;
    std::array<Part, 3> values;
    std::array<std::span<const std::byte>, 3> escaped;
  };

  [[nodiscard]] std::uint8_t* memory(const Part& part) const noexcept { return tile_.memory_.get() + part.at; }

  [[nodiscard]] Part reserve(std::size_t bytes, std::size_t count) {
    // Whole cache lines, so that the next stream is aligned whatever its type is.
    const std::size_t taken = (bytes + kTileSlack + kLine - 1) / kLine * kLine;
    tile_.make_room(taken);
    const Part part{tile_.used_, count};
    tile_.used_ += taken;
    return part;
  }

  // Bytes after the symbols are zeroed as far as kernels read past the end.
  [[nodiscard]] Part decode(std::size_t kind, Stream stream, std::size_t count) {
    const Part part = reserve(count, count);
    std::uint8_t* const out = memory(part);
    kernels_.decode(std::span(lanes_).first(source_.lanes), source_.set->code(kind, stream).table, out, count);
    std::memset(out + count, 0, kTileSlack);
    return part;
  }

  // The values of a stream's escapes, `size` bytes each. They end where those of the previous
  // stream begin.
  [[nodiscard]] std::span<const std::byte> escapes(const Part& part, std::uint8_t symbol, std::size_t size) {
    const std::size_t bytes = kernels_.count_equal(memory(part), part.count, symbol) * size;
    if (bytes > escaped_end_ - lanes_begin_) fail_tile();
    escaped_end_ -= bytes;
    return source_.bytes.subspan(escaped_end_, bytes);
  }

  [[nodiscard]] Part decode_masks(std::size_t kind, Stream stream, std::size_t count) {
    const Part part = decode(kind, stream, count);
    const auto values = escapes(part, kEscapedMask, 1);
    std::uint8_t* at = memory(part);
    for (const std::byte value : values) {
      at = std::find(at, memory(part) + count, kEscapedMask);
      // No mask is empty; decoding blocks relies on that.
      if (value == std::byte{kEscapedMask}) fail_tile();
      *at++ = std::to_integer<std::uint8_t>(value);
    }
    return part;
  }

  // The DC of a block is stored as the difference from its left neighbour; at the tile's left edge,
  // from the block above. Tiles do not depend on each other.
  [[nodiscard]] Part add_differences(std::size_t kind, const Part& differences, std::span<const std::byte> escaped) {
    const Part part = reserve(differences.count * sizeof(std::int16_t), differences.count);
    auto* out = reinterpret_cast<std::int16_t*>(memory(part));
    const std::uint8_t* symbols = memory(differences);
    const std::byte* next = escaped.data();
    std::array<std::int16_t, jpeg::JpegFrame::kMostComponents> above{};
    const ComponentRange range = components_of(kind, *tile_.frame_);
    for (std::int32_t y = 0; y < tile_.mcus_.height(); ++y) {
      for (std::size_t k = range.first; k < range.end; ++k) {
        const jpeg::JpegComponent& component = tile_.frame_->component[k];
        const auto across = static_cast<std::size_t>(tile_.mcus_.width()) * static_cast<std::size_t>(component.h);
        for (std::int32_t r = 0; r < component.v; ++r) {
          sum_row(symbols, across, above[k], next, out);
          above[k] = *out;
          symbols += across;
          out += across;
        }
      }
    }
    return part;
  }

  // Sums a row of differences, some of which may be escapes.
  void sum_row(const std::uint8_t* differences, std::size_t count, std::int16_t before, const std::byte*& escaped,
               std::int16_t* sums) const noexcept {
    for (std::size_t done = kernels_.sum(differences, count, before, sums); done < count;) {
      const int last = done > 0 ? sums[done - 1] : before;
      sums[done] = static_cast<std::int16_t>(last + load_escaped(escaped));  // may wrap around
      escaped += 2;
      ++done;
      done += kernels_.sum(differences + done, count - done, sums[done - 1], sums + done);
    }
  }

  PackedTile& tile_;
  const PackKernels& kernels_;
  const Source& source_;
  std::array<Lane, kLanes> lanes_{};
  std::array<std::size_t, kLanes> begins_{};
  std::size_t lanes_begin_ = 0;  // of the last lane, which escapes follow
  std::size_t escaped_end_;
  std::array<Streams, kBlockKinds> kinds_{};
};

void PackedTile::load(const PackKernels& kernels, const Source& source, const jpeg::JpegFrame& frame,
                      const jpeg::McuRegion& mcus, std::size_t kinds) {
  frame_ = &frame;
  mcus_ = mcus;
  next_row_ = mcus.top;
  used_ = 0;
  const auto count = static_cast<std::size_t>(mcus.width()) * static_cast<std::size_t>(mcus.height());
  Loading loading(*this, kernels, source);
  for (std::size_t kind = 0; kind < kinds; ++kind) loading.load(kind, count * blocks_of_mcu(kind, frame));
  for (std::size_t kind = 0; kind < kinds; ++kind) streams_[kind] = loading.streams(kind);
  loading.require_end(kinds == (frame.components > 1 ? kBlockKinds : 1));
}

// Skips rows of MCUs between the last read row and this one, and columns outside the region,
// without expanding them.
void PackedTile::read(const PackKernels& kernels, std::int32_t mcu_row, jpeg::CoefficientRow& row) {
  const auto width = static_cast<std::size_t>(mcus_.width());
  const auto rows_passed = static_cast<std::size_t>(mcu_row - next_row_);
  next_row_ = mcu_row + 1;
  const std::int32_t left = std::max(row.left(), mcus_.left);
  const std::int32_t right = std::min(row.right(), mcus_.right);
  for (std::size_t kind = 0; kind < (row.components() > 1 ? kBlockKinds : 1); ++kind) {
    BlockStreams& streams = streams_[kind];
    if (rows_passed > 0) kernels.skip(streams, rows_passed * width * blocks_of_mcu(kind, *frame_));
    const ComponentRange range = components_of(kind, *frame_);
    for (std::size_t k = range.first; k < range.end; ++k) {
      const auto h = static_cast<std::size_t>(frame_->component[k].h);
      const std::size_t before = static_cast<std::size_t>(left - mcus_.left) * h;
      const std::size_t wanted = static_cast<std::size_t>(right - left) * h;
      const std::size_t behind = static_cast<std::size_t>(mcus_.right - right) * h;
      const std::size_t first = static_cast<std::size_t>(left - row.left()) * h;
      for (std::size_t r = 0; r < static_cast<std::size_t>(frame_->component[k].v); ++r) {
        if (before > 0) kernels.skip(streams, before);
        kernels.expand(streams, wanted, first, row.blocks(k, r), row.extents(k, r));
        if (behind > 0) kernels.skip(streams, behind);
      }
    }
  }
}

}  // namespace forebay::pack
