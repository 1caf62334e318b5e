// The kernels of packed files with Highway, compiled once per kind of processor. A block's values
// are expanded into its 64 places in one of two ways: AVX-512 with VBMI2 does it with one
// instruction per stream; elsewhere tables of byte shuffles do two eighths at a time. Symbols are
// decoded by the plain loops of lane_loops.hpp, compiled here for each target's shift and count
// instructions. All kernels give the same coefficients as the plain functions in pack_kernels.cpp.

#include <cstddef>
#include <cstdint>
#include <span>

#include "block_loops.hpp"
#include "lane_loops.hpp"
#include "pack_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_pack.cpp"
// AVX3_DL (Ice Lake, Zen 4) expands bytes by a mask in one instruction. The plain loops read
// symbols faster where bits are counted and shifted in one instruction.
#define HWY_WANT_AVX3_DL 1
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace forebay::pack::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

void decode(std::span<Lane> lanes, const SymbolTable& table, std::uint8_t* out, std::size_t count) noexcept {
  if (lanes.size() == kLanes) return decode_all_lanes(lanes, table, out, count);
  decode_one_lane(lanes[0], table, out, count);
}

void skip(BlockStreams& streams, std::size_t count) noexcept { skip_blocks(streams, count); }

std::size_t count_bits(const std::uint8_t* bytes, std::size_t count, std::uint64_t mask) noexcept {
  return count_masked_bits(bytes, count, mask);
}

// One vector at a time; the plain loop counts the rest.
std::size_t count_equal(const std::uint8_t* bytes, std::size_t count, std::uint8_t value) noexcept {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto wanted = hn::Set(d, value);
  std::size_t equal = 0;
  for (; count >= lanes; count -= lanes, bytes += lanes) {
    equal += hn::CountTrue(d, hn::Eq(hn::LoadU(d, bytes), wanted));
  }
  return equal + count_equal_bytes(bytes, count, value);
}

// Eight at a time. What follows an escape is summed but not used.
std::size_t sum(const std::uint8_t* differences, std::size_t count, std::int16_t before, std::int16_t* sums) noexcept {
  constexpr std::size_t kEight = 8;
  const hn::Full128<std::int16_t> words;
  const hn::Full64<std::int8_t> bytes;
  const auto escape = hn::Set(bytes, static_cast<std::int8_t>(kEscapedValue));
  auto total = hn::Set(words, before);
  for (std::size_t at = 0; at < count; at += kEight) {
    const auto eight = hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(differences + at));
    auto sums_of = hn::PromoteTo(words, eight);
    sums_of = hn::Add(sums_of, hn::ShiftLeftLanes<1>(words, sums_of));
    sums_of = hn::Add(sums_of, hn::ShiftLeftLanes<2>(words, sums_of));
    sums_of = hn::Add(sums_of, hn::ShiftLeftLanes<4>(words, sums_of));
    sums_of = hn::Add(sums_of, total);
    hn::StoreU(sums_of, words, sums + at);
    const auto first = hn::FindFirstTrue(bytes, hn::Eq(eight, escape));
    if (first >= 0) [[unlikely]]
      return std::min(at + static_cast<std::size_t>(first), count);
    total = hn::Broadcast<kEight - 1>(sums_of);
  }
  return count;
}

// Writes the escaped values, in zigzag order. An escaped value has 16 bits and is in the list of
// its stream.
HWY_INLINE void put_escaped(std::uint64_t at, BlockStreams& streams, std::int16_t* block) {
  for (; at != 0; at &= at - 1) {
    const auto position = static_cast<std::size_t>(std::countr_zero(at));
    const std::byte*& from = streams.escaped[std::min<std::size_t>(position / 8, 2)];
    block[jpeg::CoefficientRow::kPlaces[position]] = load_escaped(from);
    from += 2;
  }
}

constexpr std::size_t kRow = jpeg::CoefficientRow::kGroup * jpeg::CoefficientRow::kSide;  // stride

// The mask of an eighth, which is in the stream if the block has that eighth; else 0.
HWY_INLINE std::uint32_t next_mask(std::uint32_t groups, std::size_t eighth, const std::uint8_t*& masks) {
  const std::uint32_t has = groups >> eighth & 1U;
  const std::uint32_t mask = *masks & (0U - has);
  masks += has;
  return mask;
}

#if HWY_TARGET == HWY_AVX3_DL

// For each place of a block, row by row, its zigzag position.
constexpr auto kPositions = [] {
  std::array<std::uint8_t, jpeg::kBlockSize> positions{};
  for (std::size_t k = 0; k < jpeg::kBlockSize; ++k) positions[jpeg::kNaturalOrder[k]] = static_cast<std::uint8_t>(k);
  return positions;
}();

void expand(BlockStreams& from, std::size_t count, std::size_t first, std::int16_t* blocks,
            std::uint8_t* extents) noexcept {
  BlockStreams streams = from;
  constexpr hn::Full128<std::int16_t> kEightLanes;
  const auto natural = _mm512_loadu_si512(kPositions.data());
  const auto escape = _mm512_set1_epi8(static_cast<char>(kEscapedValue));
  for (std::size_t i = first; i < first + count; ++i) {
    std::int16_t* const block = blocks + jpeg::CoefficientRow::place_of(i);
    const std::uint32_t groups = *streams.groups++;
    const std::uint32_t mask0 = next_mask(groups, 0, streams.masks[0]);
    const std::uint32_t mask1 = next_mask(groups, 1, streams.masks[1]);
    const std::uint32_t mask2 = next_mask(groups, 2, streams.masks[2]);
    // Moves eighths 3 to 7 to where they are in the block's mask.
    const auto late_groups = static_cast<std::uint16_t>(groups & kLateGroups);
    const auto late = _mm_maskz_expand_epi8(late_groups, _mm_loadu_si64(streams.late_masks));
    streams.late_masks += std::popcount(static_cast<std::uint32_t>(late_groups));
    const std::uint64_t rest = static_cast<std::uint64_t>(_mm_cvtsi128_si64(late)) | std::uint64_t{mask2} << 16U;
    const auto values0 = _mm_maskz_expand_epi8(static_cast<std::uint16_t>(mask0), _mm_loadu_si64(streams.values[0]));
    const auto values1 = _mm_maskz_expand_epi8(static_cast<std::uint16_t>(mask1), _mm_loadu_si64(streams.values[1]));
    const auto values2 = _mm512_maskz_expand_epi8(rest, _mm512_loadu_si512(streams.values[2]));
    streams.values[0] += std::popcount(mask0);
    streams.values[1] += std::popcount(mask1);
    streams.values[2] += std::popcount(rest);
    const auto zigzag = _mm512_or_si512(values2, _mm512_zextsi128_si512(_mm_unpacklo_epi64(values0, values1)));
    const auto all = _mm512_permutexvar_epi8(natural, zigzag);
    const auto upper = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(all));
    const auto lower = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(all, 1));
    const auto put = [&](std::size_t row, auto of)
                         HWY_ATTR { hn::Store(hn::Vec128<std::int16_t>{of}, kEightLanes, block + row * kRow); };
    put(0, _mm512_castsi512_si128(upper));
    put(1, _mm512_extracti32x4_epi32(upper, 1));
    put(2, _mm512_extracti32x4_epi32(upper, 2));
    put(3, _mm512_extracti32x4_epi32(upper, 3));
    put(4, _mm512_castsi512_si128(lower));
    put(5, _mm512_extracti32x4_epi32(lower, 1));
    put(6, _mm512_extracti32x4_epi32(lower, 2));
    put(7, _mm512_extracti32x4_epi32(lower, 3));
    // The extent is the highest set bit; bit 0 is set because the DC always exists.
    const std::uint64_t mask = rest | mask1 << 8U | mask0 | 1U;
    extents[i] = static_cast<std::uint8_t>(std::bit_width(mask) - 1);
    const std::uint64_t escaped = _mm512_cmpeq_epi8_mask(zigzag, escape);
    if (escaped != 0) put_escaped(escaped, streams, block);
    block[0] = *streams.dc++;
  }
  from = streams;
}

#else

using Bytes = hn::Full128<std::uint8_t>;
using ByteLanes = hn::Vec<Bytes>;

// The values of two eighths side by side, at the positions that their masks give.
HWY_INLINE ByteLanes expand_two(std::uint32_t mask, const std::uint8_t* values, std::uint32_t next_mask,
                                const std::uint8_t* next_values) {
  const Bytes d;
  const hn::Half<Bytes> half;
  alignas(16) static constexpr std::uint8_t kSecond[16] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8};
  const auto both = hn::Combine(d, hn::LoadU(half, next_values), hn::LoadU(half, values));
  const auto from =
      hn::Combine(d, hn::LoadU(half, kExpansions[next_mask].data()), hn::LoadU(half, kExpansions[mask].data()));
  return hn::TableLookupBytesOr0(both, hn::Or(from, hn::Load(d, kSecond)));
}

// Writes the rows of a block from the first kQuarters quarters of its zigzag; the other quarters
// are 0.
template <std::size_t kQuarters>
HWY_INLINE void put_rows(const ByteLanes* zigzag, std::int16_t* block) {
  const Bytes d;
  const hn::Half<hn::Full128<std::int8_t> > bytes;
  const hn::Full128<std::int16_t> words;
#pragma GCC unroll 4
  for (std::size_t pair = 0; pair < 4; ++pair) {
    ByteLanes rows = hn::Zero(d);
#pragma GCC unroll 4
    for (std::size_t quarter = 0; quarter < kQuarters; ++quarter) {
      rows =
          hn::Or(rows, hn::TableLookupBytesOr0(zigzag[quarter], hn::Load(d, kRowPairs.places[pair][quarter].data())));
    }
    const auto both = hn::BitCast(hn::Full128<std::int8_t>(), rows);
    hn::Store(hn::PromoteTo(words, hn::LowerHalf(bytes, both)), words, block + 2 * pair * kRow);
    hn::Store(hn::PromoteTo(words, hn::UpperHalf(bytes, both)), words, block + (2 * pair + 1) * kRow);
  }
}

// Which of the coefficients at `mask` are escapes. Most blocks have none, even in images that have
// some.
HWY_INLINE std::uint64_t escaped_in(const ByteLanes* zigzag, std::size_t quarters, std::uint64_t mask) {
  const Bytes d;
  const auto escape = hn::Set(d, kEscapedValue);
  auto any = hn::Eq(zigzag[0], escape);
  for (std::size_t i = 1; i < quarters; ++i) any = hn::Or(any, hn::Eq(zigzag[i], escape));
  if (hn::AllFalse(d, any)) [[likely]]
    return 0;
  alignas(16) std::uint8_t values[jpeg::kBlockSize];
  for (std::size_t i = 0; i < quarters; ++i) hn::Store(zigzag[i], d, values + 16 * i);
  std::uint64_t escaped = 0;
  for (; mask != 0; mask &= mask - 1) {
    const auto position = static_cast<std::size_t>(std::countr_zero(mask));
    if (values[position] == kEscapedValue) escaped |= mask & (0 - mask);
  }
  return escaped;
}

// Expands the last three quarters of the zigzag, for a block that has coefficients after the first
// three eighths, and adds their bits to `mask`.
HWY_INLINE void expand_late(std::uint32_t groups, std::uint32_t mask2, BlockStreams& streams, ByteLanes* zigzag,
                            std::uint64_t& mask) {
  const std::uint8_t* values = streams.values[2];
  const auto take_two = [&](std::uint32_t first, std::uint32_t second) HWY_ATTR {
    const std::uint8_t* const begin = values;
    const std::uint8_t* const middle = begin + std::popcount(first);
    values = middle + std::popcount(second);
    return expand_two(first, begin, second, middle);
  };
  std::uint32_t late[5];
#pragma GCC unroll 5
  for (std::size_t k = 0; k < 5; ++k) late[k] = next_mask(groups, 3 + k, streams.late_masks);
  zigzag[1] = take_two(mask2, late[0]);
  zigzag[2] = take_two(late[1], late[2]);
  zigzag[3] = take_two(late[3], late[4]);
  mask |= std::uint64_t{late[0]} << 24U | std::uint64_t{late[2] << 8U | late[1]} << 32U |
          std::uint64_t{late[4] << 8U | late[3]} << 48U;
  streams.values[2] = values;
}

void expand(BlockStreams& from, std::size_t count, std::size_t first, std::int16_t* blocks,
            std::uint8_t* extents) noexcept {
  BlockStreams streams = from;
  for (std::size_t i = first; i < first + count; ++i) {
    std::int16_t* const block = blocks + jpeg::CoefficientRow::place_of(i);
    const std::uint32_t groups = *streams.groups++;
    const std::uint32_t mask0 = next_mask(groups, 0, streams.masks[0]);
    const std::uint32_t mask1 = next_mask(groups, 1, streams.masks[1]);
    const std::uint32_t mask2 = next_mask(groups, 2, streams.masks[2]);
    std::uint64_t mask = mask2 << 16U | mask1 << 8U | mask0 | 1U;
    ByteLanes zigzag[4];
    std::size_t quarters = 2;
    zigzag[0] = expand_two(mask0, streams.values[0], mask1, streams.values[1]);
    streams.values[0] += std::popcount(mask0);
    streams.values[1] += std::popcount(mask1);
    if ((groups & kLateGroups) == 0) {
      zigzag[1] = expand_two(mask2, streams.values[2], 0, streams.values[2]);
      streams.values[2] += std::popcount(mask2);
      put_rows<2>(zigzag, block);
    } else {
      expand_late(groups, mask2, streams, zigzag, mask);
      put_rows<4>(zigzag, block);
      quarters = 4;
    }
    extents[i] = static_cast<std::uint8_t>(std::bit_width(mask) - 1);
    if (streams.has_escaped) put_escaped(escaped_in(zigzag, quarters, mask), streams, block);
    block[0] = *streams.dc++;
  }
  from = streams;
}

#endif

void set_pack(PackKernels& kernels) {
  kernels.decode = decode;
  kernels.expand = expand;
  kernels.skip = skip;
  kernels.count_bits = count_bits;
  kernels.count_equal = count_equal;
  kernels.sum = sum;
}

#endif
}  // namespace forebay::pack::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "jpeg/simd_dispatch.hpp"

namespace forebay::pack {

void set_pack_kernels(std::int64_t target, PackKernels& kernels) { FOREBAY_CALL_COMPILED(target, set_pack(kernels)); }

}  // namespace forebay::pack
#endif
