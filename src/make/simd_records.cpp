#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "held_math.hpp"
#include "record_kernels.hpp"

// This file is compiled once for each kind of processor.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_records.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace forebay::HWY_NAMESPACE {
// Gathering and spreading bits by a mask in one instruction is what makes this worth while: the plain loops serve
// processors that cannot.
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_BMI2_FMA)
namespace hn = hwy::HWY_NAMESPACE;

using V16 = hn::FixedTag<std::int16_t, 8>;  // an octet
using V32 = hn::FixedTag<std::int32_t, 4>;
using V8 = hn::FixedTag<std::uint8_t, 8>;

constexpr std::uint64_t kByteOnes = 0x0101010101010101;
constexpr std::uint64_t kHalfOnes = 0x0001000100010001;

HWY_INLINE std::uint64_t low_bits(unsigned count) { return (std::uint64_t{1} << count) - 1; }

// Bits to bytes, the lowest first; eight bytes are written each time.
class WideWriter {
 public:
  explicit HWY_INLINE WideWriter(std::uint8_t* to) : to_(to) {}
  // REQUIRES: count <= 64; no bits above it
  HWY_INLINE void put(std::uint64_t bits, unsigned count) {
    if (count > 56) {
      put_few(bits & 0xffffffffU, 32);
      bits >>= 32U;
      count -= 32;
    }
    put_few(bits, count);
  }
  [[nodiscard]] HWY_INLINE std::uint8_t* finish() const { return to_ + (waiting_count_ + 7) / 8; }

 private:
  HWY_INLINE void put_few(std::uint64_t bits, unsigned count) {
    waiting_ |= bits << waiting_count_;
    waiting_count_ += count;
    std::memcpy(to_, &waiting_, sizeof waiting_);
    to_ += waiting_count_ / 8;
    waiting_ >>= waiting_count_ / 8 * 8;
    waiting_count_ %= 8;
  }

  std::uint8_t* to_;
  std::uint64_t waiting_ = 0;
  unsigned waiting_count_ = 0;
};
static_assert(kHeldSlack >= sizeof(std::uint64_t));

// What a record has of a block: each octet's values as they are coded, in place, with 0 where there is none.
struct CodedBlock {
  alignas(16) std::array<std::int16_t, kBlockSize> coded;
  std::array<std::uint8_t, kOctets> masks;
  std::array<unsigned, kOctets> widths;
  std::size_t octets = 0;
  std::uint32_t magnitudes = 0;  // or-ed
  std::uint64_t weight = 0;      // of the coefficients but the first
};

#if HWY_TARGET <= HWY_AVX3

// The values of all octets, from where a block has them.
HWY_INLINE void gather_octets(const std::int16_t* block, std::size_t /*octets*/, std::int16_t* values) {
  constexpr std::size_t kStep = CoefficientRow::kGroup * CoefficientRow::kSide;
  alignas(64) static constexpr auto kIndices = [] {
    std::array<std::uint16_t, kBlockSize> indices{};
    for (std::size_t k = 0; k < kBlockSize; ++k) indices[k] = kNaturalOrder[k];
    return indices;
  }();
  const auto row = [&](std::size_t y) { return hn::LoadU(V16(), block + y * kStep).raw; };
  const auto half = [&](std::size_t y) {
    auto rows = _mm512_castsi128_si512(row(y));
    rows = _mm512_inserti32x4(rows, row(y + 1), 1);
    rows = _mm512_inserti32x4(rows, row(y + 2), 2);
    return _mm512_inserti32x4(rows, row(y + 3), 3);
  };
  const auto upper = half(0);
  const auto lower = half(4);
  const auto first = _mm512_load_si512(kIndices.data());
  const auto second = _mm512_load_si512(kIndices.data() + kBlockSize / 2);
  _mm512_store_si512(values, _mm512_permutex2var_epi16(upper, first, lower));
  _mm512_store_si512(values + kBlockSize / 2, _mm512_permutex2var_epi16(upper, second, lower));
}

#else

// The values of an octet, from where a block has them.
template <std::size_t kOctet>
HWY_INLINE void gather_octet(const std::int16_t* block, std::int16_t* values) {
  const auto gather = [&]<std::size_t... kAt>(std::index_sequence<kAt...>) {
    ((values[8 * kOctet + kAt] = block[CoefficientRow::kPlaces[8 * kOctet + kAt]]), ...);
  };
  gather(std::make_index_sequence<8>());
}
// Those of as many octets.
HWY_INLINE void gather_octets(const std::int16_t* block, std::size_t octets, std::int16_t* values) {
  const auto gather = [&]<std::size_t... kOctet>(std::index_sequence<kOctet...>) {
    static_cast<void>(((kOctet < octets && (gather_octet<kOctet>(block, values), true)) && ...));
  };
  gather(std::make_index_sequence<kOctets>());
}

#endif

HWY_INLINE void code_block(const std::int16_t* block, std::size_t extent, const RecordWeights& weights,
                           CodedBlock& out) {
  const V16 d16;
  const V32 d32;
  const std::size_t octets = extent / 8 + 1;
  alignas(64) std::int16_t values[kBlockSize];
  gather_octets(block, octets, values);
  values[0] = 0;
  auto heavy = hn::Zero(d32);
  auto also_heavy = hn::Zero(d32);
  auto all = hn::Zero(d16);
  for (std::size_t octet = 0; octet < octets; ++octet) {
    const auto value = hn::Load(d16, values + 8 * octet);
    const auto is_there = hn::Ne(value, hn::Zero(d16));
    (void)hn::StoreMaskBits(d16, is_there, &out.masks[octet]);
    const auto magnitude = hn::Abs(value);
    all = hn::Or(all, magnitude);
    // Beyond this a sum is above all that is asked for, and so it stays within 32 bits.
    const auto counted = hn::Min(magnitude, hn::Set(d16, 4001));
    heavy = hn::ReorderWidenMulAccumulate(d32, counted, hn::LoadU(d16, weights.data() + 8 * octet), heavy, also_heavy);
    const auto twice = hn::Add(magnitude, magnitude);
    const auto coded = hn::Sub(hn::Sub(twice, hn::Set(d16, 2)), hn::ShiftRight<15>(value));
    hn::Store(hn::IfThenElseZero(is_there, coded), d16, out.coded.data() + 8 * octet);
    std::array<std::uint64_t, 2> halves;
    std::memcpy(halves.data(), out.coded.data() + 8 * octet, sizeof halves);
    std::uint64_t either = halves[0] | halves[1];
    either |= either >> 32U;
    either |= either >> 16U;
    const auto width = static_cast<unsigned>(std::bit_width(either & 0xffffU));
    const bool has_any = out.masks[octet] != 0;
    out.widths[octet] = has_any ? std::max(width, 1U) : 0;
    out.octets = has_any ? octet + 1 : out.octets;
  }
  alignas(16) std::int32_t sums[4];
  hn::Store(hn::Add(heavy, also_heavy), d32, sums);
  for (const std::int32_t sum : sums) out.weight += static_cast<std::uint64_t>(sum);
  alignas(16) std::uint16_t ored[8];
  hn::Store(hn::BitCast(hn::FixedTag<std::uint16_t, 8>(), all), hn::FixedTag<std::uint16_t, 8>(), ored);
  for (const std::uint16_t one : ored) out.magnitudes |= one;
}

std::size_t write(const std::int16_t* block, std::size_t extent, const RecordWeights& weights, std::uint32_t most,
                  std::uint8_t* record, bool& is_heavy) noexcept {
  const std::int32_t first = block[0];
  if (first < -2048 || first > 2047) return 0;
  CodedBlock values;
  code_block(block, extent, weights, values);
  // Above this a value would have more bits than a record says; scalar_record_kernels() knows exactly.
  if (values.magnitudes >= 1U << 13U) {
    return scalar_record_kernels().write(block, extent, weights, most, record, is_heavy);
  }
  values.weight += static_cast<std::uint64_t>(weights[0]) * static_cast<std::uint64_t>(first < 0 ? -first : first);
  if (values.weight > most) is_heavy = true;
  const auto head = static_cast<std::uint32_t>(first) << 4U | static_cast<std::uint32_t>(values.octets);
  record[0] = static_cast<std::uint8_t>(head & 0xffU);
  record[1] = static_cast<std::uint8_t>(head >> 8U & 0xffU);
  std::uint8_t* to = record + 2;
  for (std::size_t i = 0; i < values.octets; i += 2) {
    *to++ = static_cast<std::uint8_t>(values.widths[i] | (i + 1 < values.octets ? values.widths[i + 1] << 4U : 0U));
  }
  for (std::size_t i = 0; i < values.octets; ++i) {
    *to = values.masks[i];
    to += values.masks[i] != 0 ? 1 : 0;
  }
  WideWriter bits(to);
  for (std::size_t i = 0; i < values.octets; ++i) {
    const std::uint64_t mask = values.masks[i];
    const unsigned width = values.widths[i];
    const auto count = static_cast<unsigned>(std::popcount(mask));
    const std::int16_t* const coded = values.coded.data() + 8 * i;
    if (width <= 8) {
      const V8 d8;
      alignas(8) std::uint8_t bytes[8];
      hn::Store(hn::DemoteTo(d8, hn::Load(V16(), coded)), d8, bytes);
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, sizeof word);
      bits.put(_pext_u64(word, _pdep_u64(mask, kByteOnes) * low_bits(width)), count * width);
      continue;
    }
    std::array<std::uint64_t, 2> halves;
    std::memcpy(halves.data(), coded, sizeof halves);
    const auto lower = static_cast<unsigned>(std::popcount(mask & 15U));
    bits.put(_pext_u64(halves[0], _pdep_u64(mask & 15U, kHalfOnes) * low_bits(width)), lower * width);
    bits.put(_pext_u64(halves[1], _pdep_u64(mask >> 4U, kHalfOnes) * low_bits(width)), (count - lower) * width);
  }
  return static_cast<std::size_t>(bits.finish() - record);
}

// Coded values to where the mask has them, eight lanes of 16 bits. Four of 14 bits are among the 57 that a word has at
// least wherever they begin.
HWY_INLINE hn::Vec<V16> spread(const std::uint8_t* record, std::size_t at, std::uint64_t mask, unsigned width) {
  const V16 d16;
  const auto word_at = [&](std::size_t bit) {
    std::uint64_t word = 0;
    std::memcpy(&word, record + bit / 8, sizeof word);
    return word >> (bit % 8);
  };
  alignas(16) std::array<std::uint64_t, 2> halves;
  const auto lower = static_cast<std::size_t>(std::popcount(mask & 15U));
  halves[0] = _pdep_u64(word_at(at), _pdep_u64(mask & 15U, kHalfOnes) * low_bits(width));
  halves[1] = _pdep_u64(word_at(at + lower * width), _pdep_u64(mask >> 4U, kHalfOnes) * low_bits(width));
  alignas(16) std::int16_t lanes[8];
  std::memcpy(lanes, halves.data(), sizeof lanes);
  return hn::Load(d16, lanes);
}

std::uint8_t read(const std::uint8_t* record, std::int16_t* block) noexcept {
  const V16 d16;
  const auto octets = static_cast<std::size_t>(octets_of(record));
  std::uint64_t widths = 0;  // of all octets
  std::memcpy(&widths, record + 2, sizeof(std::uint32_t));
  widths &= low_bits(static_cast<unsigned>(4 * octets));
  const std::uint8_t* masks = record + 2 + (octets + 1) / 2;
  // An octet's bits fold to one where it has a width.
  std::uint64_t any = widths | widths >> 2U;
  any |= any >> 1U;
  std::size_t at = 8 * static_cast<std::size_t>(masks - record + std::popcount(any & 0x11111111U));
  std::size_t last = 0;
  for (std::size_t octet = 0; octet < octets; ++octet, widths >>= 4U) {
    const auto width = static_cast<unsigned>(widths & 15U);
    if (width == 0) continue;
    const std::uint64_t mask = *masks++;
    const auto coded = spread(record, at, mask, width);
    at += static_cast<std::size_t>(std::popcount(mask)) * width;
    last = 8 * octet + static_cast<std::size_t>(std::bit_width(mask)) - 1;
    // 0 stands for 1, and for nothing where the mask has no bit.
    const auto magnitude = hn::Add(hn::ShiftRight<1>(coded), hn::Set(d16, 1));
    const auto negative = hn::Sub(hn::Zero(d16), hn::And(coded, hn::Set(d16, 1)));
    alignas(16) std::array<std::uint64_t, 2> there{_pdep_u64(mask & 15U, kHalfOnes) * 0xffffU,
                                                   _pdep_u64(mask >> 4U, kHalfOnes) * 0xffffU};
    alignas(16) std::int16_t lanes[8];
    std::memcpy(lanes, there.data(), sizeof lanes);
    const auto value = hn::And(hn::Sub(hn::Xor(magnitude, negative), negative), hn::Load(d16, lanes));
    hn::Store(value, d16, lanes);
    for (std::size_t i = 0; i < 8; ++i) block[CoefficientRow::kPlaces[8 * octet + i]] = lanes[i];
  }
  block[0] = static_cast<std::int16_t>(first_coefficient(record));
  return static_cast<std::uint8_t>(last);
}

void set_records(RecordKernels& kernels) {
  kernels.write = write;
  kernels.read = read;
}

#else

void set_records(RecordKernels& /*kernels*/) {}

#endif
}  // namespace forebay::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "jpeg/simd_dispatch.hpp"

namespace forebay {

void set_record_kernels(std::int64_t target, RecordKernels& kernels) {
  FOREBAY_CALL_COMPILED(target, set_records(kernels));
}

}  // namespace forebay
#endif
