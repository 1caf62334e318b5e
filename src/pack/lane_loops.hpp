#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "pack_kernels.hpp"

// Reads symbols from lanes. Compiled for several kinds of processors, so every function is inlined
// into its caller. The loops are limited by the number of instructions and by registers: a lane
// needs four of them.
namespace forebay::pack {

// Look-ups per refill, which leaves at least 56 bits.
inline constexpr int kLooksOfRefill = 5;
static_assert(kLooksOfRefill * kSymbolBits < 56);
// The most symbols that these look-ups give, and the most bytes that they consume.
inline constexpr std::size_t kMostOfRefill = kLooksOfRefill * SymbolTable::kMost;
inline constexpr std::size_t kMostBytesOfRefill = 7;
// How far they write at most: the last store is of four bytes.
inline constexpr std::size_t kReachOfLooks = kMostOfRefill + 1;

[[gnu::always_inline]] inline std::uint64_t load_lowest_first(const std::uint8_t* from) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

// At least 57 bits, at any position; zeros after the end.
[[gnu::always_inline]] inline std::uint64_t next_bits(const Lane& lane) noexcept {
  const std::size_t at = lane.bits_taken / 8;
  std::uint64_t value = 0;
  if (at + 8 <= lane.size) [[likely]] {
    value = load_lowest_first(lane.bytes + at);
  } else {
    for (std::size_t i = at; i < lane.size; ++i) value |= std::uint64_t{lane.bytes[i]} << (8 * (i - at));
  }
  return value >> (lane.bits_taken % 8);
}

// A lane while whole loads are possible, and the place for its symbols. A look-up depends only on
// the one before it: bytes are loaded from where the last refill ended, long before they are
// needed.
struct LaneReader {
  const std::uint8_t* next;
  std::uint64_t count;  // valid bits in `bits`; only the low six bits of this member are meaningful
  std::uint64_t bits;   // the valid bits, followed by zeros or the bits that come next
  std::uint8_t* out;

  // REQUIRES: refills_within() > 0.
  [[gnu::always_inline]] LaneReader(const Lane& lane, std::uint8_t* to) noexcept
      : next(lane.bytes + (lane.bits_taken + 7) / 8),
        count((0 - lane.bits_taken) % 8),
        bits(count == 0 ? 0 : std::uint64_t{lane.bytes[lane.bits_taken / 8]} >> (lane.bits_taken % 8)),
        out(to) {}

  [[gnu::always_inline]] void refill() noexcept {
    bits |= load_lowest_first(next) << (count & 63U);
    next += (~count & 63U) / 8;
    count |= 56U;
  }

  // Takes all symbols of one look-up. Writes four bytes.
  [[gnu::always_inline]] void take(const SymbolTable& table) noexcept {
    const SymbolTable::Entry& entry = table.at(bits & (SymbolTable::kEntries - 1));
    const std::uint64_t look = entry.bits_and_count;
    std::memcpy(out, &entry, sizeof(entry));
    bits >>= look & 63U;
    count -= look;
    asm("" : "+r"(count));  // now; deferred, it would keep every `look` in memory
    out += look >> 6U;
  }

  [[nodiscard, gnu::always_inline]] std::size_t bits_taken(const Lane& lane) const noexcept {
    return static_cast<std::size_t>(next - lane.bytes) * 8 - (count & 63U);
  }
};

// How often a lane can be refilled and looked up whatever the look-ups give. Refill n, counted from
// 0, loads no byte after byte 7n + 15.
[[gnu::always_inline]] inline std::size_t refills_within(const Lane& lane, std::size_t room) noexcept {
  constexpr std::size_t kFirst = 16;
  const std::size_t at = lane.bits_taken / 8;
  const std::size_t bytes = lane.size > at ? lane.size - at : 0;
  if (bytes < kFirst || room < kReachOfLooks) return 0;
  return std::min((bytes - kFirst) / kMostBytesOfRefill, (room - kReachOfLooks) / kMostOfRefill) + 1;
}

// The end of a lane, where whole loads, or the room for whole stores, are no longer available. It
// writes only within its own stretch, so that the ends of all lanes can be read side by side.
struct LaneEnding {
  Lane lane;
  std::uint8_t* out;
  std::uint8_t* end;
  std::uint64_t bits = 0;

  [[nodiscard, gnu::always_inline]] std::size_t left() const noexcept { return static_cast<std::size_t>(end - out); }

  [[gnu::always_inline]] void load() noexcept { bits = next_bits(lane); }

  // Takes all symbols of one look-up if there is room for a whole store, otherwise none.
  [[gnu::always_inline]] void take(const SymbolTable& table) noexcept {
    const SymbolTable::Entry& entry = table.at(bits & (SymbolTable::kEntries - 1));
    const bool fits = left() >= sizeof(SymbolTable::Entry);
    std::uint8_t spare[sizeof(entry)];
    std::memcpy(fits ? out : spare, &entry, sizeof(entry));
    pass(fits, entry.bits(), entry.count());
  }

  // Takes one symbol, if one is left.
  [[gnu::always_inline]] void take_one(const SymbolTable& table) noexcept {
    const SymbolTable::Entry& entry = table.at(bits & (SymbolTable::kEntries - 1));
    std::uint8_t spare = 0;
    *(left() > 0 ? out : &spare) = entry.symbols[0];
    pass(left() > 0, table.bits_of_first(entry), 1);
  }

 private:
  // Branchless, because the outcome is unpredictable.
  [[gnu::always_inline]] void pass(bool is_taken, std::uint32_t length, std::uint32_t count) noexcept {
    const std::uint32_t all = 0U - static_cast<std::uint32_t>(is_taken);
    bits >>= length & all;
    lane.bits_taken += length & all;
    out += count & all;
  }
};

// LaneEnding::take() leaves at most this many symbols, because it needs room for a whole entry.
inline constexpr std::size_t kMostLeft = sizeof(SymbolTable::Entry) - 1;
static_assert(std::has_single_bit(kMostLeft + 1U), "so that a number above it has a bit above it");

[[gnu::always_inline]] inline void decode_one_lane(Lane& lane, const SymbolTable& table, std::uint8_t* out,
                                                   std::size_t count) noexcept {
  std::uint8_t* const end = out + count;
  while (std::size_t refills = refills_within(lane, static_cast<std::size_t>(end - out))) {
    LaneReader reader(lane, out);
    do {
      reader.refill();
#pragma GCC unroll 5
      for (int i = 0; i < kLooksOfRefill; ++i) reader.take(table);
    } while (--refills > 0);
    out = reader.out;
    lane.bits_taken = reader.bits_taken(lane);
  }
  LaneEnding last{.lane = lane, .out = out, .end = end};
  while (last.left() > kMostLeft) {
    last.load();
#pragma GCC unroll 5
    for (int i = 0; i < kLooksOfRefill; ++i) last.take(table);
  }
  last.load();
#pragma GCC unroll 3
  for (std::size_t i = 0; i < kMostLeft; ++i) last.take_one(table);
  lane = last.lane;
}

using LaneEnds = std::array<std::uint8_t*, kLanes>;

[[gnu::always_inline]] inline void finish_lanes(std::span<Lane> lanes, const SymbolTable& table, const LaneEnds& at,
                                                const LaneEnds& ends) noexcept {
  LaneEnding a{.lane = lanes[0], .out = at[0], .end = ends[0]};
  LaneEnding b{.lane = lanes[1], .out = at[1], .end = ends[1]};
  LaneEnding c{.lane = lanes[2], .out = at[2], .end = ends[2]};
  LaneEnding d{.lane = lanes[3], .out = at[3], .end = ends[3]};
  const auto load = [&]() __attribute__((always_inline)) {
    a.load();
    b.load();
    c.load();
    d.load();
  };
  while ((a.left() | b.left() | c.left() | d.left()) > kMostLeft) {
    load();
#pragma GCC unroll 5
    for (int i = 0; i < kLooksOfRefill; ++i) {
      a.take(table);
      b.take(table);
      c.take(table);
      d.take(table);
    }
  }
  load();
#pragma GCC unroll 3
  for (std::size_t i = 0; i < kMostLeft; ++i) {
    a.take_one(table);
    b.take_one(table);
    c.take_one(table);
    d.take_one(table);
  }
  lanes[0] = a.lane;
  lanes[1] = b.lane;
  lanes[2] = c.lane;
  lanes[3] = d.lane;
}

[[gnu::always_inline]] inline void decode_all_lanes(std::span<Lane> lanes, const SymbolTable& table, std::uint8_t* out,
                                                    std::size_t count) noexcept {
  const std::size_t length = lane_length(count, kLanes);
  const auto begin_of = [&](std::size_t j) { return out + std::min(j * length, count); };
  LaneEnds at{out, begin_of(1), begin_of(2), begin_of(3)};
  const LaneEnds ends{at[1], at[2], at[3], out + count};
  const auto refills_of = [&](std::size_t j) {
    return refills_within(lanes[j], static_cast<std::size_t>(ends[j] - at[j]));
  };
  while (std::size_t refills = std::min({refills_of(0), refills_of(1), refills_of(2), refills_of(3)})) {
    LaneReader a(lanes[0], at[0]);
    LaneReader b(lanes[1], at[1]);
    LaneReader c(lanes[2], at[2]);
    LaneReader d(lanes[3], at[3]);
    do {
      a.refill();
      b.refill();
      c.refill();
      d.refill();
#pragma GCC unroll 5
      for (int i = 0; i < kLooksOfRefill; ++i) {
        a.take(table);
        b.take(table);
        c.take(table);
        d.take(table);
      }
    } while (--refills > 0);
    at = {a.out, b.out, c.out, d.out};
    lanes[0].bits_taken = a.bits_taken(lanes[0]);
    lanes[1].bits_taken = b.bits_taken(lanes[1]);
    lanes[2].bits_taken = c.bits_taken(lanes[2]);
    lanes[3].bits_taken = d.bits_taken(lanes[3]);
  }
  finish_lanes(lanes, table, at, ends);
}

}  // namespace forebay::pack
