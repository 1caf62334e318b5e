#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "pack_kernels.hpp"

// Reading symbols from lanes, to be compiled for several kinds of processors: every function is inlined into its
// caller.
namespace forebay {

// Looks at the bits of a lane that follow a refill, which leaves at least 56.
inline constexpr int kLooksOfRefill = 5;
static_assert(kLooksOfRefill * kSymbolBits <= 56);
// What they write at most: the last store is of four bytes.
inline constexpr std::size_t kReachOfLooks = kLooksOfRefill * SymbolTable::kMost + 1;

[[gnu::always_inline]] inline std::uint64_t load_lowest_first(const std::uint8_t* from) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

[[gnu::always_inline]] inline void store_lowest_first(std::uint32_t value, std::uint8_t* to) noexcept {
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  std::memcpy(to, &value, sizeof(value));
}

[[gnu::always_inline]] inline bool has_whole_load(const Lane& lane) noexcept { return lane.next + 8 <= lane.size; }

// To 56 bits or more. Bits beyond `count` that are in the buffer already are the same. REQUIRES: has_whole_load()
[[gnu::always_inline]] inline void refill_whole(Lane& lane) noexcept {
  lane.buffer |= load_lowest_first(lane.bytes + lane.next) << lane.count;
  lane.next += (63 - lane.count) >> 3U;
  lane.count |= 56U;
}

// The same anywhere.
[[gnu::always_inline]] inline void refill(Lane& lane) noexcept {
  if (has_whole_load(lane)) [[likely]] {
    refill_whole(lane);
    return;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; lane.next + i < lane.size; ++i) {
    value |= std::uint64_t{lane.bytes[lane.next + i]} << (8 * i);
  }
  lane.buffer |= value << lane.count;
  lane.next += (63 - lane.count) >> 3U;
  lane.count |= 56U;
}

// Takes all symbols that a look gives. Writes four bytes.
[[gnu::always_inline]] inline std::uint8_t* take(Lane& lane, const SymbolTable& table, std::uint8_t* out) noexcept {
  const SymbolTable::Entry entry = table.at(lane.buffer & (SymbolTable::kEntries - 1));
  lane.buffer >>= entry.bits();
  lane.count -= entry.bits();
  store_lowest_first(entry.symbols(), out);
  return out + entry.count();
}

// Takes `left` symbols at most: all of the look, or the first one, or none. Writes four bytes.
[[gnu::always_inline]] inline std::size_t take_few(Lane& lane, const SymbolTable& table, std::uint8_t* out,
                                                   std::size_t left) noexcept {
  const SymbolTable::Entry entry = table.at(lane.buffer & (SymbolTable::kEntries - 1));
  std::uint32_t count = entry.count();
  std::uint32_t bits = entry.bits();
  bits = count > left ? table.bits_of_first(entry) : bits;
  count = count > left ? 1 : count;
  bits = left == 0 ? 0 : bits;
  count = left == 0 ? 0 : count;
  lane.buffer >>= bits;
  lane.count -= bits;
  store_lowest_first(entry.symbols(), out);
  return count;
}

[[gnu::always_inline]] inline void decode_one_lane(Lane& from, const SymbolTable& table, std::uint8_t* out,
                                                   std::size_t count) noexcept {
  Lane lane = from;
  std::uint8_t* const end = out + count;
  while (static_cast<std::size_t>(end - out) >= kReachOfLooks && has_whole_load(lane)) {
    refill_whole(lane);
#pragma GCC unroll 5
    for (int i = 0; i < kLooksOfRefill; ++i) out = take(lane, table, out);
  }
  while (out < end) {
    refill(lane);
#pragma GCC unroll 5
    for (int i = 0; i < kLooksOfRefill; ++i) {
      out += take_few(lane, table, out, static_cast<std::size_t>(end - out));
    }
  }
  from = lane;
}

using LaneEnds = std::array<std::uint8_t*, kLanes>;

// All that is left, where the bytes are nearly at their end. From the last lane to the first: what a lane writes behind
// its stretch are the first symbols of the next one, which are known then.
[[gnu::always_inline]] inline void finish_one_by_one(std::span<Lane> lanes, const SymbolTable& table,
                                                     const LaneEnds& out, const LaneEnds& ends) noexcept {
  for (std::size_t j = kLanes; j-- > 0;) {
    std::uint32_t next = 0;
    std::memcpy(&next, ends[j], sizeof(next));
    decode_one_lane(lanes[j], table, out[j], static_cast<std::size_t>(ends[j] - out[j]));
    std::memcpy(ends[j], &next, sizeof(next));
  }
}

// The last symbols of all lanes side by side, into memory apart, as each lane writes beyond its stretch.
[[gnu::always_inline]] inline void finish_lanes(std::span<Lane> lanes, const SymbolTable& table, const LaneEnds& out,
                                                const LaneEnds& ends) noexcept {
  std::array<std::size_t, kLanes> left;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::size_t most = 0;
  for (std::size_t j = 0; j < kLanes; ++j) {
    left[j] = static_cast<std::size_t>(ends[j] - out[j]);
    most = std::max(most, left[j]);
  }
  if (most >= kReachOfLooks) return finish_one_by_one(lanes, table, out, ends);
  constexpr std::size_t kTail = kReachOfLooks;
  static_assert(kTail <= PackKernels::kSlack);
  std::array<std::array<std::uint8_t, kTail + 4>, kLanes> tails{};
  std::array<std::size_t, kLanes> done{};
  Lane a = lanes[0];
  Lane b = lanes[1];
  Lane c = lanes[2];
  Lane d = lanes[3];
  while (done[0] < left[0] || done[1] < left[1] || done[2] < left[2] || done[3] < left[3]) {
    refill(a);
    refill(b);
    refill(c);
    refill(d);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      done[0] += take_few(a, table, tails[0].data() + done[0], left[0] - done[0]);
      done[1] += take_few(b, table, tails[1].data() + done[1], left[1] - done[1]);
      done[2] += take_few(c, table, tails[2].data() + done[2], left[2] - done[2]);
      done[3] += take_few(d, table, tails[3].data() + done[3], left[3] - done[3]);
    }
  }
  lanes[0] = a;
  lanes[1] = b;
  lanes[2] = c;
  lanes[3] = d;
  // Copies of one size, which reach into what the next lane began with: that is put back.
  for (std::size_t j = 0; j < kLanes; ++j) {
    std::array<std::uint8_t, kTail> next;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::memcpy(next.data(), ends[j], kTail);
    std::memcpy(out[j], tails[j].data(), kTail);
    std::memcpy(ends[j], next.data(), kTail);
  }
}

[[gnu::always_inline]] inline void decode_all_lanes(std::span<Lane> from, const SymbolTable& table, std::uint8_t* out,
                                                    std::size_t count) noexcept {
  const std::size_t length = lane_length(count, kLanes);
  // One after the other: what each writes behind its stretch the next one overwrites.
  if (length < kReachOfLooks) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const std::size_t begin = std::min(j * length, count);
      decode_one_lane(from[j], table, out + begin, std::min(begin + length, count) - begin);
    }
    return;
  }
  Lane a = from[0];
  Lane b = from[1];
  Lane c = from[2];
  Lane d = from[3];
  std::uint8_t* out_a = out;
  std::uint8_t* out_b = out + length;
  std::uint8_t* out_c = out + 2 * length;
  std::uint8_t* out_d = out + 3 * length;
  std::uint8_t* const end_a = out_b;
  std::uint8_t* const end_b = out_c;
  std::uint8_t* const end_c = out_d;
  std::uint8_t* const end_d = out + count;
  while (static_cast<std::size_t>(std::min(std::min(end_a - out_a, end_b - out_b),
                                           std::min(end_c - out_c, end_d - out_d))) >= kReachOfLooks &&
         has_whole_load(a) && has_whole_load(b) && has_whole_load(c) && has_whole_load(d)) {
    refill_whole(a);
    refill_whole(b);
    refill_whole(c);
    refill_whole(d);
#pragma GCC unroll 5
    for (int i = 0; i < kLooksOfRefill; ++i) {
      out_a = take(a, table, out_a);
      out_b = take(b, table, out_b);
      out_c = take(c, table, out_c);
      out_d = take(d, table, out_d);
    }
  }
  from[0] = a;
  from[1] = b;
  from[2] = c;
  from[3] = d;
  finish_lanes(from, table, {out_a, out_b, out_c, out_d}, {end_a, end_b, end_c, end_d});
}

}  // namespace forebay
