#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "jpeg/coefficients.hpp"
#include "lane_loops.hpp"
#include "pack_kernels.hpp"
#include "table_set.hpp"

// Reconstructs blocks from their streams. Compiled for several kinds of processors, so every
// function is inlined into its caller.
namespace forebay::pack {

inline constexpr std::uint8_t kLateGroups = 0xf8;  // bits of Stream::groups for eighths 3 to 7

// A shuffle for each mask of an eighth: the index of the value at each position, 0x80 for none.
inline constexpr auto kExpansions = [] {
  std::array<std::array<std::uint8_t, 8>, 256> all{};
  for (std::size_t mask = 0; mask < all.size(); ++mask) {
    std::uint8_t next = 0;
    for (std::size_t bit = 0; bit < 8; ++bit) all[mask][bit] = (mask >> bit & 1U) != 0 ? next++ : 0x80;
  }
  return all;
}();

// Shuffles for each pair of block rows and each quarter of the zigzag: the index within the quarter
// of the coefficient at each place of the two rows, 0x80 if it is in another quarter.
struct RowPairs {
  alignas(16) std::array<std::array<std::array<std::uint8_t, 16>, 4>, 4> places;
};
inline constexpr RowPairs kRowPairs = [] {
  RowPairs all{};
  for (auto& pair : all.places) {
    for (auto& quarter : pair) quarter.fill(0x80);
  }
  for (std::size_t k = 0; k < jpeg::kBlockSize; ++k) {
    const std::size_t at = jpeg::kNaturalOrder[k];
    all.places[at / 16][k / 16][at % 16] = static_cast<std::uint8_t>(k % 16);
  }
  return all;
}();

[[gnu::always_inline]] inline std::int16_t load_escaped(const std::byte* from) noexcept {
  return static_cast<std::int16_t>(std::to_integer<unsigned>(from[0]) | std::to_integer<unsigned>(from[1]) << 8U);
}

// The number of set bits of `count` bytes under `mask`, which is one byte repeated eight times.
[[gnu::always_inline]] inline std::size_t count_masked_bits(const std::uint8_t* bytes, std::size_t count,
                                                            std::uint64_t mask) noexcept {
  std::size_t bits = 0;
  for (; count >= 8; count -= 8, bytes += 8) {
    bits += static_cast<std::size_t>(std::popcount(load_lowest_first(bytes) & mask));
  }
  // Loads beyond the last byte, which is readable; the shift drops the extra bytes.
  if (count > 0) {
    const std::uint64_t last = load_lowest_first(bytes) & mask;
    bits += static_cast<std::size_t>(std::popcount(last << (64 - 8 * count)));
  }
  return bits;
}

[[gnu::always_inline]] inline std::size_t count_equal_bytes(const std::uint8_t* bytes, std::size_t count,
                                                            std::uint8_t value) noexcept {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < count; ++i) equal += bytes[i] == value ? 1 : 0;
  return equal;
}

[[gnu::always_inline]] inline std::size_t sum_differences(const std::uint8_t* differences, std::size_t count,
                                                          std::int16_t before, std::int16_t* sums) noexcept {
  auto sum = static_cast<std::uint16_t>(before);
  for (std::size_t i = 0; i < count; ++i) {
    if (differences[i] == kEscapedValue) return i;
    sum = static_cast<std::uint16_t>(sum + static_cast<unsigned>(static_cast<std::int8_t>(differences[i])));
    sums[i] = static_cast<std::int16_t>(sum);
  }
  return count;
}

[[gnu::always_inline]] inline void skip_blocks(BlockStreams& streams, std::size_t count) noexcept {
  constexpr std::uint64_t kEach = 0x0101010101010101;
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::size_t values[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t masks = count_masked_bits(streams.groups, count, kEach << i);
    values[i] = count_masked_bits(streams.masks[i], masks, kAll);
    streams.masks[i] += masks;
  }
  const std::size_t late = count_masked_bits(streams.groups, count, kEach * kLateGroups);
  values[2] += count_masked_bits(streams.late_masks, late, kAll);
  streams.late_masks += late;
  streams.groups += count;
  streams.dc += count;
  for (std::size_t i = 0; i < 3; ++i) {
    if (streams.has_escaped) streams.escaped[i] += 2 * count_equal_bytes(streams.values[i], values[i], kEscapedValue);
    streams.values[i] += values[i];
  }
}

// Writes the coefficients of an eighth of a block.
[[gnu::always_inline]] inline void expand_eighth(std::uint32_t mask, std::size_t first, const std::uint8_t*& values,
                                                 const std::byte*& escaped, std::int16_t* block) noexcept {
  for (; mask != 0; mask &= mask - 1) {
    const auto at = first + static_cast<std::size_t>(std::countr_zero(mask));
    const std::uint8_t value = *values++;
    auto coefficient = std::int16_t{static_cast<std::int8_t>(value)};
    if (value == kEscapedValue) [[unlikely]] {
      coefficient = load_escaped(escaped);
      escaped += 2;
    }
    block[jpeg::CoefficientRow::kPlaces[at]] = coefficient;
  }
}

[[gnu::always_inline]] inline void expand_blocks(BlockStreams& from, std::size_t count, std::size_t first,
                                                 std::int16_t* blocks, std::uint8_t* extents) noexcept {
  BlockStreams streams = from;
  for (std::size_t i = first; i < first + count; ++i) {
    std::int16_t* const block = blocks + jpeg::CoefficientRow::place_of(i);
    std::uint32_t groups = *streams.groups++;
    std::uint32_t last = 0;  // the last eighth, and its mask
    std::uint32_t mask = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      if ((groups >> k & 1U) == 0) continue;
      last = static_cast<std::uint32_t>(k);
      mask = *streams.masks[k]++;
      expand_eighth(mask, 8 * k, streams.values[k], streams.escaped[k], block);
    }
    for (groups &= kLateGroups; groups != 0; groups &= groups - 1) {
      last = static_cast<std::uint32_t>(std::countr_zero(groups));
      mask = *streams.late_masks++;
      expand_eighth(mask, 8 * std::size_t{last}, streams.values[2], streams.escaped[2], block);
    }
    block[0] = *streams.dc++;
    extents[i] = static_cast<std::uint8_t>(8 * last + static_cast<std::uint32_t>(std::bit_width(mask | 1U)) - 1);
  }
  from = streams;
}

}  // namespace forebay::pack
