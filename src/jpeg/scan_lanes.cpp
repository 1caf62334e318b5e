// Decodes two rows of MCUs at once, if points say where both begin. Each look-up in a Huffman table
// depends on the previous one, so with a single row the processor waits for the first-level cache;
// two rows do not wait for each other. read_two() steps both lanes alternately until one ends,
// finishes the other, and keeps the lower row for the next call. Results and refusals equal those
// of ScanDecoder::read_mcus(). Runs on a decoder thread.

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "scan_decoder.hpp"
#include "scan_symbols.hpp"

namespace forebay::jpeg {

namespace {

// The state that changes with every look-up.
struct LaneState {
  scan::Bits bits;
  const HuffmanTable* table = nullptr;  // null: the lane has ended
  std::int16_t* block = nullptr;
  std::uint32_t position = 0;
};

}  // namespace

// Decodes one row of MCUs, look-up by look-up. Every function that returns a state leaves bits for
// at least kLooks - 1 look-ups.
class ScanDecoder::Lane {
 public:
  Lane(const ScanDecoder& decoder, Cursor& cursor, CoefficientRow& row) noexcept
      : decoder_(decoder), cursor_(cursor), left_(row.right() - row.left()) {
    for (std::size_t i = 0; i < decoder_.block_count_; ++i) {
      const Block& block = decoder_.blocks_[i];
      places_[i] = {row.blocks(block.component, block.row), row.extents(block.component, block.row), block.column};
    }
  }

  // The state that advance() changes is passed by value, so that the compiler keeps it in
  // registers.
  [[nodiscard]] LaneState begin() noexcept { return begin_mcu({.bits = cursor_.bits}); }

  // One look-up. Returns false when the lane has ended.
  [[gnu::always_inline]] bool advance(LaneState& state) noexcept {
    const HuffmanTable::Two two = state.table->two(scan::look(state.bits, HuffmanTable::kBits));
    const std::uint32_t reached = state.position + two.step();
    if (reached >= scan::kLast) [[unlikely]] {
      state = turn(state);
      return state.table != nullptr;
    }
    state.block[scan::kPlaces[state.position + two.first()]] = two.first_value();
    state.block[scan::kPlaces[reached]] = two.value();
    scan::drop(state.bits, two.bits());
    state.position = reached;
    return true;
  }

  // Whether the lane ended because its row is complete.
  [[nodiscard]] bool is_complete() const noexcept { return left_ == 0; }

 private:
  // Handles a look-up that ends the block, or that holds no complete symbol.
  [[gnu::always_inline]] LaneState turn(LaneState state) noexcept {
    const HuffmanTable::Two two = state.table->two(scan::look(state.bits, HuffmanTable::kBits));
    const std::uint32_t reached = state.position + two.step();
    if (two.bits() != 0 && scan::is_end(reached)) {
      state.block[scan::kPlaces[state.position + two.first()]] = two.first_value();
      state.block[scan::kPlaces[reached]] = two.value();
      scan::drop(state.bits, two.bits());
      return end_block(state, reached);
    }
    if (two.bits() != 0) {  // the first symbol alone may end the block
      const scan::Rest rest = scan::take_singly(state.bits, *state.table, state.position, state.block);
      state.bits = rest.bits;
      return end_block(state, rest.position);
    }
    scan::Symbol symbol;
    const HuffmanTable::One one = state.table->one(scan::look(state.bits, HuffmanTable::kBits));
    if (!scan::take_long(state.bits, *state.table, one, symbol)) return {};
    state.position += symbol.step;
    state.block[scan::kPlaces[state.position]] = symbol.value;
    if (state.position < scan::kLast) return state;
    return end_block(state, scan::is_end(state.position) ? state.position : 0);
  }

  // `end`: as Rest::position.
  [[gnu::always_inline]] LaneState end_block(LaneState state, std::uint32_t end) noexcept {
    if (end == 0) return {};
    const Block& block = decoder_.blocks_[block_];
    Place& place = places_[block_];
    place.extents[place.block] = static_cast<std::uint8_t>(end % scan::kEndOfBlock);
    place.block += block.across;
    if (++block_ == decoder_.block_count_) {
      block_ = 0;
      if (!cursor_.has(state.bits)) return {};
      if (--left_ == 0) {
        cursor_.bits = state.bits;
        return {};
      }
      return begin_mcu(state);
    }
    return begin_block(state);
  }

  // Ensures that the window holds the whole MCU, if the segment goes that far.
  [[gnu::always_inline]] LaneState begin_mcu(LaneState state) noexcept {
    EntropyWindow& window = *cursor_.window;
    if (window.is_short(state.bits.next)) state.bits.next = window.advance(state.bits.next);
    return begin_block(state);
  }

  [[gnu::always_inline]] LaneState begin_block(LaneState state) noexcept {
    const Block& block = decoder_.blocks_[block_];
    const Place& place = places_[block_];
    std::int32_t& predictor = cursor_.predictors[block.component];
    if (!scan::take_dc(state.bits, *block.dc, predictor)) return {};
    state.block = place.blocks + CoefficientRow::place_of(place.block);
    state.block[0] = static_cast<std::int16_t>(predictor);
    state.table = block.ac;
    state.position = 0;
    return state;
  }

  const ScanDecoder& decoder_;
  Cursor& cursor_;
  std::array<Place, kMostBlocks> places_{};
  std::size_t block_ = 0;  // index in the MCU
  std::int32_t left_ = 0;  // MCUs to decode
};

// Not with restart markers, not if chroma is skipped, and only once the tables of two symbols
// exist.
bool ScanDecoder::can_read_two(std::int32_t mcu_row, const CoefficientRow& row) const noexcept {
  return mcu_row + 1 < wanted_.bottom && restart_interval_ == 0 && row.components() == frame_->components &&
         std::all_of(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(block_count_),
                     [](const Block& block) { return block.ac->is_prepared(); });
}

// below_ is the cursor of the lower row. Both rows must end where the next points say; otherwise
// the points belong to another file.
bool ScanDecoder::read_two(std::int32_t mcu_row, CoefficientRow& row) {
  if (!begin_row(mcu_row + 1, row)) return false;
  std::swap(at_, below_);
  if (!begin_row(mcu_row, row)) return false;
  if (!has_ahead_) ahead_.reset(*frame_, row.components(), {row.left(), mcu_row, row.right(), mcu_row + 1});
  has_ahead_ = true;
  Lane upper(*this, at_, row);
  Lane lower(*this, below_, ahead_);
  LaneState one = upper.begin();
  LaneState other = lower.begin();
  bool both = one.table != nullptr && other.table != nullptr;
  while (both) {
    scan::refill(one.bits);
    scan::refill(other.bits);
    for (int i = 0; i < scan::kLooks && both; ++i) both = upper.advance(one) && lower.advance(other);
  }
  const auto finish = [](Lane& lane, LaneState state) {
    while (state.table != nullptr) {
      scan::refill(state.bits);
      for (int i = 0; i < scan::kLooks && lane.advance(state); ++i) {
      }
    }
    return lane.is_complete();
  };
  if (!finish(upper, one) || !finish(lower, other) || !is_behind(mcu_row, row)) return false;
  std::swap(at_, below_);
  ahead_row_ = mcu_row + 1;
  return is_behind(ahead_row_, row);
}

}  // namespace forebay::jpeg
