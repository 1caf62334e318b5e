#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "coefficients.hpp"
#include "entropy_window.hpp"
#include "huffman_table.hpp"

// The steps of decoding a scan, which scan_decoder.cpp and scan_lanes.cpp share. Callers ensure
// that there are enough bits. Functions on the caller's state; any thread.
namespace forebay::jpeg::scan {

// A bit buffer, first bit on top.
struct Bits {
  std::uint64_t buffer = 0;
  std::uint64_t count = 0;             // valid bits; more may be present, to be read again
  const std::uint8_t* next = nullptr;  // next byte to read
};

inline constexpr std::uint32_t kLast = kBlockSize - 1;  // last position in a block
inline constexpr std::uint32_t kEndOfBlock = HuffmanTable::kEndOfBlock;
inline constexpr unsigned kBuffer = 64;  // bits
// A refill leaves at least 56 bits, enough for five look-ups.
inline constexpr int kLooks = 5;
static_assert(kLooks * HuffmanTable::kBits <= 56);

// No MCU takes more bytes than may be read past the end: 10 blocks of 64 codes with values, what
// the buffer holds beyond them, and the eight bytes of the last refill.
inline constexpr std::size_t kMostBytes = 10 * 64 * (16 + 15) / 8 + 16;
static_assert(kMostBytes <= EntropyWindow::kMargin);

// Where positions are stored. Positions to which an end of block or damage leads are stored at the
// last coefficient. An end of block writes 0 there, which it is anyway.
inline constexpr auto kPlaces = [] {
  std::array<std::uint8_t, 256> places{};
  places.fill(CoefficientRow::kPlaces.back());
  std::copy(CoefficientRow::kPlaces.begin(), CoefficientRow::kPlaces.end(), places.begin());
  return places;
}();

[[gnu::always_inline]] inline std::uint64_t load_big_endian(const std::uint8_t* from) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap64(value);
  return value;
}

// Refills to 56 bits or more. Bits beyond `count` that are in the buffer already do not change.
[[gnu::always_inline]] inline void refill(Bits& bits) noexcept {
  bits.buffer |= load_big_endian(bits.next) >> bits.count;
  bits.next += (kBuffer - 1 - bits.count) >> 3U;
  bits.count |= 56U;
}

[[gnu::always_inline]] inline std::uint64_t look(const Bits& bits, unsigned count) noexcept {
  return bits.buffer >> (kBuffer - count);
}

[[gnu::always_inline]] inline void drop(Bits& bits, std::uint32_t count) noexcept {
  bits.buffer <<= count;
  bits.count -= count;
}

// A symbol with its value.
struct Symbol {
  std::uint32_t step = 0;
  std::int16_t value = 0;
};

// Reads a symbol that one look-up does not give; `one` is the result of that look-up. Returns false
// if there is none.
[[gnu::always_inline]] inline bool take_long(Bits& bits, const HuffmanTable& table, HuffmanTable::One one,
                                             Symbol& symbol) noexcept {
  refill(bits);
  HuffmanTable::Found found{one.length(), one.symbol()};
  if (found.length == 0) [[unlikely]] {
    found = table.find_long(static_cast<std::uint32_t>(look(bits, HuffmanCode::kLongest)));
    if (found.length == 0) return false;
  }
  drop(bits, found.length);
  const std::uint32_t size = found.symbol & 15U;
  symbol.step = step_of(found.symbol >> 4U, size);
  // Shifts in two steps, because size may be 0.
  const auto value = static_cast<std::uint32_t>(bits.buffer >> 1U >> (kBuffer - 1 - size));
  symbol.value = static_cast<std::int16_t>(value_of(value, size));
  drop(bits, size);
  refill(bits);
  return true;
}

// Leaves bits for kLooks - 1 look-ups.
[[gnu::always_inline]] inline bool take_dc(Bits& bits, const HuffmanTable& table, std::int32_t& predictor) noexcept {
  refill(bits);
  const HuffmanTable::One one = table.one(look(bits, HuffmanTable::kBits));
  if (one.bits() != 0) [[likely]] {
    drop(bits, one.bits());
    predictor += one.value();
  } else {
    Symbol symbol;
    if (!take_long(bits, table, one, symbol)) return false;
    predictor += symbol.value;
  }
  // libjpeg would wrap around.
  return predictor == static_cast<std::int16_t>(predictor);
}

// Whether a block is complete at the position that its symbols lead to. Neither an end of block
// after the last coefficient nor a coefficient after it can belong to the block.
constexpr bool is_end(std::uint32_t position) noexcept {
  return position == kLast || (position >= kEndOfBlock && position < kEndOfBlock + kLast);
}

// The result of reading the rest of a block.
struct Rest {
  Bits bits;                   // the bits that follow
  std::uint32_t position = 0;  // where the block ended, as is_end() requires; 0 if it is damaged
};

// Reads the rest of a block from this position, one symbol at a time.
[[gnu::noinline]] inline Rest take_singly(Bits bits, const HuffmanTable& table, std::uint32_t position,
                                          std::int16_t* block) noexcept {
  while (position < kLast) {
    refill(bits);
    const HuffmanTable::One one = table.one(look(bits, HuffmanTable::kBits));
    if (one.bits() != 0) {
      drop(bits, one.bits());
      position += one.step();
      block[kPlaces[position]] = one.value();
    } else {
      Symbol symbol;
      if (!take_long(bits, table, one, symbol)) return {};
      position += symbol.step;
      block[kPlaces[position]] = symbol.value;
    }
  }
  return {bits, is_end(position) ? position : 0};
}

}  // namespace forebay::jpeg::scan
