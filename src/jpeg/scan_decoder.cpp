// Entropy decoding of one scan, on a decoder thread, one row of MCUs at a time. open() builds or
// finds the Huffman tables and plans the blocks of an MCU. read() decodes the blocks of a row
// between two columns and skips the others, whose bits must be parsed nevertheless. With points
// (scan_seeking.cpp) a row begins near its first wanted MCU instead. With two rows in flight
// (scan_lanes.cpp) the latencies of table look-ups overlap.
//
// For anything unusual the functions return false, and libjpeg-turbo decodes the file. This is the
// safety argument of src/jpeg: the code may refuse what libjpeg accepts, but must never accept what
// libjpeg refuses, warns about, or decodes differently.

#include "scan_decoder.hpp"

#include <algorithm>
#include <array>

#include "scan_symbols.hpp"

namespace forebay::jpeg {
namespace {

using namespace scan;  // NOLINT(google-build-using-namespace): its own parts

// Parses one symbol at a time, at the ends of blocks and for codes whose larger tables are not
// prepared. Out of line, because its array would enlarge every caller's stack frame.
[[gnu::noinline]] Rest skip_singly(Bits bits, const HuffmanTable& table, std::uint32_t position) noexcept {
  std::array<std::int16_t, 256> nowhere;  // NOLINT(cppcoreguidelines-pro-type-member-init): written, not read
  return take_singly(bits, table, position, nowhere.data());
}

// Reads the AC coefficients of a block and returns Rest::position. A refill provides bits for
// kLooks look-ups, of which the DC symbol has used one. Each look-up stores two values without
// asking how many symbols it holds; if there is only one, its value is stored twice.
[[gnu::always_inline]] inline std::uint32_t take_ac(Bits& bits, const HuffmanTable& table,
                                                    std::int16_t* block) noexcept {
  const auto take_rest = [&](std::uint32_t from) {
    const Rest rest = take_singly(bits, table, from, block);
    bits = rest.bits;
    return rest.position;
  };
  if (!table.is_prepared()) return take_rest(0);
  std::uint32_t position = 0;
  for (int looks = kLooks - 1;; looks = kLooks) {
#pragma GCC unroll 5
    for (int i = 0; i < kLooks; ++i) {
      if (i == looks) break;
      const HuffmanTable::Two two = table.two(look(bits, HuffmanTable::kBits));
      const std::uint32_t reached = position + two.step();
      if (reached >= kLast) {
        // The two symbols pass the end of the block. The first alone may still end it properly.
        if (two.bits() != 0 && !is_end(reached)) return take_rest(position);
        if (two.bits() != 0) {
          block[kPlaces[position + two.first()]] = two.first_value();
          block[kPlaces[reached]] = two.value();
          drop(bits, two.bits());
          return reached;
        }
        Symbol symbol;
        if (!take_long(bits, table, table.one(look(bits, HuffmanTable::kBits)), symbol)) return 0;
        position += symbol.step;
        block[kPlaces[position]] = symbol.value;
        if (position >= kLast) return is_end(position) ? position : 0;
        break;
      }
      block[kPlaces[position + two.first()]] = two.first_value();
      block[kPlaces[reached]] = two.value();
      drop(bits, two.bits());
      position = reached;
    }
    refill(bits);
  }
}

// Like take_ac(), without values.
[[gnu::always_inline]] inline bool skip_ac(Bits& bits, const HuffmanTable& table) noexcept {
  const auto skip_rest = [&](std::uint32_t from) {
    const Rest rest = skip_singly(bits, table, from);
    bits = rest.bits;
    return rest.position != 0;
  };
  if (!table.is_prepared()) return skip_rest(0);
  std::uint32_t position = 0;
  for (int looks = kLooks - 1;; looks = kLooks) {
#pragma GCC unroll 5
    for (int i = 0; i < kLooks; ++i) {
      if (i == looks) break;
      const HuffmanTable::Many many = table.many(look(bits, HuffmanTable::kBits));
      const std::uint32_t reached = position + many.step();
      if (reached >= kLast) {
        // The symbols before the last may still end the block.
        if (many.bits() != 0 && !is_end(reached)) return skip_rest(position);
        if (many.bits() != 0) {
          drop(bits, many.bits());
          return true;
        }
        Symbol symbol;
        if (!take_long(bits, table, table.one(look(bits, HuffmanTable::kBits)), symbol)) return false;
        position += symbol.step;
        if (position >= kLast) return is_end(position);
        break;
      }
      drop(bits, many.bits());
      position = reached;
    }
    refill(bits);
  }
}

}  // namespace

// Where to build a table: an unused entry, or the least recently used one.
HuffmanTables::Known& HuffmanTables::oldest() {
  auto* found = known_.data();
  for (auto& known : known_) {
    if (known == nullptr) {
      known = std::make_unique<Known>();
      return *known;
    }
    if (known->used < (*found)->used) found = &known;
  }
  return **found;
}

HuffmanTable* HuffmanTables::find(const HuffmanCode& code, HuffmanKind kind) {
  ++uses_;
  for (auto& known : known_) {
    if (known == nullptr || !known->is_valid || known->kind != kind || known->code != code) continue;
    known->used = uses_;
    return &known->table;
  }
  Known& known = oldest();
  known.code = code;
  known.kind = kind;
  known.used = uses_;
  known.is_valid = known.table.build(code, kind);
  return known.is_valid ? &known.table : nullptr;
}

// Begins with the tables, so that a refused code ends it at once. expect() is told roughly how many
// blocks will be parsed, so that the larger tables are made only if they pay off.
bool ScanDecoder::open(const JpegFrame& frame, const Scan& scan) {
  std::array<HuffmanTable*, JpegFrame::kMostComponents> dc{};
  std::array<HuffmanTable*, JpegFrame::kMostComponents> ac{};
  std::int32_t blocks = 0;
  for (std::size_t i = 0; i < frame.components; ++i) {
    dc[i] = tables_.find(scan.codes[i].dc, HuffmanKind::dc);
    ac[i] = tables_.find(scan.codes[i].ac, HuffmanKind::ac);
    if (dc[i] == nullptr || ac[i] == nullptr) return false;
    blocks += frame.component[i].h * frame.component[i].v;
  }
  if (blocks > static_cast<std::int32_t>(kMostBlocks)) return false;
  // With points, only the MCUs of the region are parsed, and in each row those between a point and
  // the region; otherwise all MCUs up to the region's end.
  const std::int64_t mcus = scan.points.empty()
                                ? std::int64_t{frame.mcus_across} * scan.wanted.bottom
                                : std::int64_t{scan.wanted.width() + scan.points.step()} * scan.wanted.height();
  for (std::size_t i = 0; i < frame.components; ++i) {
    ac[i]->expect(mcus * frame.component[i].h * frame.component[i].v);
  }
  frame_ = &frame;
  plan_blocks(frame, dc, ac);
  at_.predictors = {};
  next_row_ = 0;
  restart_interval_ = until_restart_ = scan.restart_interval;
  next_restart_ = 0;
  bytes_ = scan.bytes;
  points_ = scan.points;
  wanted_ = scan.wanted;
  ahead_row_ = kNone;
  has_ahead_ = false;
  at_.begun_at = 0;
  at_.bits = points_.empty() ? Bits{.next = at_.window->open(bytes_)} : Bits{};
  return true;
}

// Blocks of an MCU are ordered by component, and within a component row by row (T.81, A.2.3).
void ScanDecoder::plan_blocks(const JpegFrame& frame, const std::array<HuffmanTable*, JpegFrame::kMostComponents>& dc,
                              const std::array<HuffmanTable*, JpegFrame::kMostComponents>& ac) noexcept {
  block_count_ = 0;
  for (std::size_t i = 0; i < frame.components; ++i) {
    const auto across = static_cast<std::size_t>(frame.component[i].h);
    const auto down = static_cast<std::size_t>(frame.component[i].v);
    for (std::size_t block = 0; block < across * down; ++block) {
      blocks_[block_count_++] = {
          .dc = dc[i], .ac = ac[i], .component = i, .row = block / across, .column = block % across, .across = across};
    }
  }
}

// Without points, everything before the row, and in it before its first wanted column, is parsed
// without values.
bool ScanDecoder::read(std::int32_t mcu_row, CoefficientRow& row) {
  if (!points_.empty()) return read_from_points(mcu_row, row);
  if (!finish(mcu_row) || !skip_mcus(row.left()) || !read_mcus(row.right() - row.left(), row)) return false;
  next_row_ = mcu_row + 1;
  return skip_mcus(frame_->mcus_across - row.right());
}

bool ScanDecoder::finish(std::int32_t mcu_row) {
  const std::int64_t rows = std::max(0, mcu_row - next_row_);
  next_row_ = std::max(next_row_, mcu_row);
  return skip_mcus(rows * frame_->mcus_across);
}

// Refills the window once per MCU; it then holds more than the longest MCU can take.
bool ScanDecoder::begin_mcu(Bits& bits) noexcept {
  if (restart_interval_ > 0) {
    if (until_restart_ == 0 && !restart(bits)) return false;
    --until_restart_;
  }
  if (at_.window->is_short(bits.next)) bits.next = at_.window->advance(bits.next);
  return true;
}

// All bits before the marker belong to the MCUs before it, except for less than a byte of padding.
bool ScanDecoder::is_at_marker(const Bits& bits, unsigned marker) const noexcept {
  const EntropyWindow& window = *at_.window;
  const std::ptrdiff_t left = (window.end() - bits.next) * 8 + static_cast<std::ptrdiff_t>(bits.count);
  return window.is_whole() && left < 8 && window.marker() == marker;
}

// Restart markers count modulo 8, and each must be the expected one. libjpeg would resynchronise,
// with a warning.
bool ScanDecoder::restart(Bits& bits) noexcept {
  if (!is_at_marker(bits, kFirstRestart + next_restart_)) return false;
  bits = {.next = at_.window->pass_marker()};
  at_.predictors = {};
  until_restart_ = restart_interval_;
  next_restart_ = (next_restart_ + 1) % 8;
  return true;
}

// Components that are not wanted (chroma, for grey output) are parsed without values.
// `at_.has(bits)` detects that the scan's bits have run out; what was decoded from the bytes after
// its end does not count.
bool ScanDecoder::read_mcus(std::int32_t count, CoefficientRow& row) noexcept {
  std::array<Place, kMostBlocks> places{};
  for (std::size_t i = 0; i < block_count_; ++i) {
    const Block& block = blocks_[i];
    if (block.component >= row.components()) continue;
    places[i] = {row.blocks(block.component, block.row), row.extents(block.component, block.row), block.column};
  }
  Bits bits = at_.bits;
  for (std::int32_t x = 0; x < count; ++x) {
    if (!begin_mcu(bits)) return false;
    for (std::size_t i = 0; i < block_count_; ++i) {
      const Block& block = blocks_[i];
      std::int32_t& predictor = at_.predictors[block.component];
      if (!take_dc(bits, *block.dc, predictor)) return false;
      Place& place = places[i];
      if (place.blocks == nullptr) {
        if (!skip_ac(bits, *block.ac)) return false;
        continue;
      }
      std::int16_t* const coefficients = place.blocks + CoefficientRow::place_of(place.block);
      coefficients[0] = static_cast<std::int16_t>(predictor);
      const std::uint32_t end = take_ac(bits, *block.ac, coefficients);
      if (end == 0) return false;
      place.extents[place.block] = static_cast<std::uint8_t>(end % kEndOfBlock);
      place.block += block.across;
    }
    if (!at_.has(bits)) return false;
  }
  at_.bits = bits;
  return true;
}

bool ScanDecoder::skip_mcus(std::int64_t count) noexcept {
  Bits bits = at_.bits;
  for (std::int64_t x = 0; x < count; ++x) {
    if (!begin_mcu(bits)) return false;
    for (std::size_t i = 0; i < block_count_; ++i) {
      const Block& block = blocks_[i];
      if (!take_dc(bits, *block.dc, at_.predictors[block.component]) || !skip_ac(bits, *block.ac)) return false;
    }
    if (!at_.has(bits)) return false;
  }
  at_.bits = bits;
  return true;
}

}  // namespace forebay::jpeg
