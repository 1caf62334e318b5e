// Tables that decode the Huffman codes of JPEG (T.81, annex C and F.2.2.3), several symbols per
// look-up if they are short. build() makes the basic table, in which one look-up of kBits bits
// gives a symbol together with its value. prepare() adds the tables of two and of many symbols;
// they are made once expect() has announced enough blocks to pay for them. Longer codes go through
// find_long(). One table belongs to one decoder thread.
//
// Some codes are refused (all ones, more than 256 symbols, DC sizes above 15). They are against the
// standard, or would make a look-up leave the table. The file then goes to libjpeg-turbo, which
// decides.

#include "huffman_table.hpp"

#include <algorithm>

#include "coefficients.hpp"

namespace forebay::jpeg {
namespace {

// A DC difference of an 8-bit image has at most 11 bits, but libjpeg accepts 15.
constexpr std::uint32_t kMostDcBits = 15;

// An entry for a symbol with its value: all bits consumed, how far the position advances, the
// value.
constexpr HuffmanTable::One whole(std::uint32_t bits, std::uint32_t step, std::int32_t value) noexcept {
  return {bits | step << 8U | static_cast<std::uint32_t>(static_cast<std::uint16_t>(value)) << 16U};
}

// An entry for a code whose value does not fit into the look-up; bits() is 0.
constexpr HuffmanTable::One only_code(std::uint32_t length, std::uint32_t symbol) noexcept {
  return {length << 8U | symbol << 16U};
}

}  // namespace

// Codes are canonical: those of one length are consecutive numbers, and the next length begins with
// twice the number that follows.
bool HuffmanTable::build(const HuffmanCode& code, HuffmanKind kind) {
  one_.fill({});
  is_prepared_ = false;
  expected_ = 0;
  symbols_ = code.symbols;
  std::uint32_t next = 0;   // the next code
  std::uint32_t taken = 0;  // symbols used so far
  for (std::uint32_t length = 1; length <= HuffmanCode::kLongest; ++length) {
    const std::uint32_t count = code.counts[length];
    if (taken + count > HuffmanCode::kMost) return false;
    first_[length] = static_cast<std::int32_t>(taken) - static_cast<std::int32_t>(next);
    // No code may be all ones.
    if (next + count >= 1U << length && count > 0) return false;
    for (std::uint32_t i = 0; i < count; ++i, ++next, ++taken) {
      const std::uint32_t symbol = code.symbols[taken];
      if (kind == HuffmanKind::dc && symbol > kMostDcBits) return false;
      if (length <= kBits) add(next, length, symbol, kind);
    }
    below_[length] = next << (HuffmanCode::kLongest - length);
    next <<= 1U;
  }
  return true;
}

// Fills all entries that begin with this code: one group for each value if the value's bits fit,
// otherwise one entry for the code alone.
void HuffmanTable::add(std::uint32_t code, std::uint32_t length, std::uint32_t symbol, HuffmanKind kind) noexcept {
  const std::uint32_t size = symbol & 15U;
  const std::uint32_t zeros = symbol >> 4U;
  const auto fill = [this](std::uint32_t bits, std::uint32_t used, One entry) {
    const std::uint32_t rest = kBits - used;
    std::fill_n(one_.begin() + (bits << rest), std::size_t{1} << rest, entry);
  };
  if (size == 0) {
    fill(code, length, whole(length, kind == HuffmanKind::dc ? 0 : step_of(zeros, 0), 0));
  } else if (length + size > kBits) {
    fill(code, length, only_code(length, symbol));
  } else {
    const std::uint32_t step = kind == HuffmanKind::dc ? 0 : step_of(zeros, size);
    for (std::uint32_t bits = 0; bits < 1U << size; ++bits) {
      fill(code << size | bits, length + size, whole(length + size, step, value_of(bits, size)));
    }
  }
}

void HuffmanTable::expect(std::int64_t blocks) noexcept {
  if (is_prepared()) return;
  expected_ += blocks;
  if (expected_ >= kWorthwhile) prepare();
}

void HuffmanTable::prepare() noexcept {
  for (std::size_t index = 0; index < kEntries; ++index) {
    two_[index] = two_of(index);
    many_[index] = many_of(index);
  }
  is_prepared_ = true;
}

// The symbol after the first `bits` bits of an index, if it is complete; otherwise an entry whose
// bits() is 0. Missing bits are taken as 0, so an entry counts only if it needs none of them.
HuffmanTable::One HuffmanTable::after(std::size_t index, std::uint32_t bits) const noexcept {
  const One next = one_[index << bits & (kEntries - 1)];
  return bits + next.bits() <= kBits ? next : One{};
}

// Nothing follows an end of block within the same block; then there is only one symbol.
HuffmanTable::Two HuffmanTable::two_of(std::size_t index) const noexcept {
  const One first = one_[index];
  if (first.bits() == 0) return {std::uint64_t{kNothing} << 16U};
  const One next = first.step() < kEndOfBlock ? after(index, first.bits()) : One{};
  const auto packed = [&](std::uint32_t bits, std::uint32_t step, std::int16_t value) -> Two {
    return {std::uint64_t{bits} | std::uint64_t{first.step()} << 8U | std::uint64_t{step} << 16U |
            std::uint64_t{static_cast<std::uint16_t>(first.value())} << 32U |
            std::uint64_t{static_cast<std::uint16_t>(value)} << 48U};
  };
  if (next.bits() == 0) return packed(first.bits(), first.step(), first.value());
  return packed(first.bits() + next.bits(), first.step() + next.step(), next.value());
}

// Serves blocks whose values are not wanted: as many symbols as fit, but none beyond the last
// coefficient of the block.
HuffmanTable::Many HuffmanTable::many_of(std::size_t index) const noexcept {
  constexpr std::uint32_t kLast = kBlockSize - 1;
  std::uint32_t bits = one_[index].bits();
  std::uint32_t step = one_[index].step();
  if (bits == 0) return {static_cast<std::uint16_t>(kNothing << 8U)};
  while (step < kEndOfBlock) {
    const One next = after(index, bits);
    if (next.bits() == 0 || (next.step() < kEndOfBlock && step + next.step() > kLast)) break;
    bits += next.bits();
    step += next.step();
  }
  return {static_cast<std::uint16_t>(bits | step << 8U)};
}

// The code's length is the first at which the bits are below the end of that length's codes. The
// modulo keeps a damaged stream within the table.
HuffmanTable::Found HuffmanTable::find_long(std::uint32_t bits) const noexcept {
  for (std::uint32_t length = kBits + 1; length <= HuffmanCode::kLongest; ++length) {
    if (bits >= below_[length]) continue;
    const auto code = static_cast<std::int32_t>(bits >> (HuffmanCode::kLongest - length));
    return {length, symbols_[static_cast<std::size_t>(code + first_[length]) % HuffmanCode::kMost]};
  }
  return {};
}

}  // namespace forebay::jpeg
