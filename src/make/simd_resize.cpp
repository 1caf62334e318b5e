// Resampling along rows and mixing of rows, with Highway, compiled once per kind of processor. Both
// are sums of products of bytes with 16-bit coefficients. Processors have an instruction that
// multiplies pairs of 16-bit numbers and adds neighbouring products. So taps go in pairs, and the
// data are shuffled such that the two pixels of a pair are neighbours. Up to 8 taps their number is
// a template argument, which unrolls the loops. All results equal the plain loops of kernels.cpp,
// rounding included.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_resize.cpp"
// Scalable vectors (SVE, RVV) are excluded because the code combines 16-byte blocks into vectors of
// known size, SSSE3 because only processors of 2006 would need it.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace forebay::make::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

void set_resize(Kernels& /*kernels*/) {}

#else
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kBlock = 16;

// Packs two 16-bit coefficients into one number.
HWY_INLINE std::int32_t pair_of(std::int32_t first, std::int32_t second) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(first) | static_cast<std::uint32_t>(second) << 16U);
}

// Adds to sums the products of neighbouring 16-bit numbers, pair by pair.
template <class D32, class V16, class V32>
HWY_INLINE V32 add_pairs(D32 d32, V16 a, V16 b, V32 sums) {
  // On some processors the neighbours are added only by the second call, so the accumulators must
  // begin at zero.
  V32 second = hn::Zero(d32);
  const V32 first = hn::ReorderWidenMulAccumulate(d32, a, b, hn::Zero(d32), second);
  return hn::Add(sums, hn::RearrangeToOddPlusEven(first, second));
}

// sums >> precision, the same for all lanes.
template <class D32, class V32>
HWY_INLINE V32 shift_right(D32 d32, V32 sums, int precision) {
#if HWY_TARGET == HWY_SSE4
  (void)d32;
  return hn::ShiftRightSame(sums, precision);
#else
  // One instruction, where the other shift takes two.
  return hn::Shr(sums, hn::Set(d32, precision));
#endif
}

// Resampling along a row.

// Loads one block from each of as many offsets as the vector has blocks.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const std::uint8_t* in, const std::int32_t* offsets) {
  if constexpr (hn::MaxLanes(D()) == kBlock) {
    return hn::LoadU(d, in + offsets[0]);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, in, offsets + hn::MaxLanes(D()) / kBlock / 2),
                       load_blocks(half, in, offsets));
  }
}

using Pattern = std::array<std::uint8_t, kBlock>;

// The shuffle that takes two neighbouring pixels of a block, the first at byte `at`, to pairs of
// 16-bit numbers: red, green, blue, 0. Bytes beyond the block become 0.
constexpr Pattern pair_pattern(std::size_t at) {
  Pattern pattern{};
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::size_t channel = i / 4;
    const std::size_t from = at + channel + (i % 4 == 2 ? 3 : 0);
    pattern[i] = i % 2 == 0 && channel < 3 && from < kBlock ? static_cast<std::uint8_t>(from) : std::uint8_t{0x80};
  }
  return pattern;
}
alignas(kBlock) constexpr Pattern kFirstPair = pair_pattern(0);
alignas(kBlock) constexpr Pattern kSecondPair = pair_pattern(6);
alignas(kBlock) constexpr Pattern kFifthPixel = pair_pattern(12);
// The sums of four vectors are packed into the bytes of one, in the order 0, 2, 1, 3; this shuffle
// makes pixels of them.
alignas(kBlock) constexpr Pattern kToPixels{0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15};

// Resamples kBlocks pixels at a time. kTaps is the number of taps, or 0 if it is only known at run
// time.
template <std::size_t kTaps>
class RowResampler {
  using D8 = hn::CappedTag<std::uint8_t, 4 * kBlock>;
  using D16 = hn::Repartition<std::int16_t, D8>;
  using D32 = hn::Repartition<std::int32_t, D8>;
  using DU32 = hn::Repartition<std::uint32_t, D8>;

 public:
  static constexpr std::size_t kBlocks = hn::MaxLanes(D8()) / kBlock;

  HWY_INLINE RowResampler(const std::uint8_t* in, const Columns& columns)
      : in_(in),
        taps_(columns.table().taps()),
        precision_(columns.table().precision()),
        stride_(columns.padded_width() * 8),
        half_(hn::Set(D32(), 1 << (precision_ - 1))),
        first_pair_(hn::LoadDup128(D8(), kFirstPair.data())),
        second_pair_(hn::LoadDup128(D8(), kSecondPair.data())),
        fifth_pixel_(hn::LoadDup128(D8(), kFifthPixel.data())) {}

  // Computes one vector of pixels, one channel per 32-bit lane. A load has five pixels, of which
  // two pairs of taps are used. If one tap remains after them, it is the fifth pixel of the same
  // load.
  HWY_INLINE hn::Vec<DU32> pixels(const std::int32_t* offsets, const std::int16_t* coefficients) const {
    const std::size_t taps = kTaps != 0 ? kTaps : taps_;
    auto sums = half_;
    const std::uint8_t* in = in_;
    for (std::size_t t = 0; t < taps;) {
      const auto bytes = load_blocks(D8(), in, offsets);
      sums = add(sums, bytes, first_pair_, coefficients);
      if (t + 2 < taps) sums = add(sums, bytes, second_pair_, coefficients + stride_);
      if (t + 5 == taps) sums = add(sums, bytes, fifth_pixel_, coefficients + 2 * stride_);
      t += t + 5 == taps ? 5 : 4;
      in += 12;
      coefficients += 2 * stride_;
    }
    return hn::BitCast(DU32(), shift_right(D32(), sums, precision_));
  }

 private:
  static HWY_INLINE hn::Vec<D32> add(hn::Vec<D32> sums, hn::Vec<D8> bytes, hn::Vec<D8> pattern,
                                     const std::int16_t* coefficients) {
    const auto pairs = hn::BitCast(D16(), hn::TableLookupBytesOr0(bytes, pattern));
    return add_pairs(D32(), pairs, hn::LoadU(D16(), coefficients), sums);
  }

  const std::uint8_t* in_;
  std::size_t taps_;
  int precision_;
  std::size_t stride_;
  hn::Vec<D32> half_;
  hn::Vec<D8> first_pair_;
  hn::Vec<D8> second_pair_;
  hn::Vec<D8> fifth_pixel_;
};

template <std::size_t kTaps>
HWY_INLINE void resample_taps(const std::uint8_t* in, const Columns& columns, std::uint8_t* out) {
  using Row = RowResampler<kTaps>;
  constexpr std::size_t kBlocks = Row::kBlocks;
  const hn::CappedTag<std::uint8_t, 4 * kBlock> d8;
  const hn::Repartition<std::uint32_t, decltype(d8)> du32;
  const auto to_pixels = hn::LoadDup128(d8, kToPixels.data());
  // After the shuffle, block b holds pixel b of each of the four vectors; this puts the pixels in
  // order.
  alignas(4 * kBlock) std::array<std::int32_t, 4 * kBlocks> order;
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<std::int32_t>(4 * (i % kBlocks) + i / kBlocks);
  }
  const auto in_order = hn::SetTableIndices(du32, order.data());

  const Row row(in, columns);
  const std::int32_t* offsets = columns.offsets();
  const std::int16_t* coefficients = columns.coefficients(0);
  for (std::size_t x = 0; x < columns.padded_width(); x += 4 * kBlocks) {
    const auto first = row.pixels(offsets, coefficients);
    const auto second = row.pixels(offsets + kBlocks, coefficients + kBlocks * 8);
    const auto third = row.pixels(offsets + 2 * kBlocks, coefficients + 2 * kBlocks * 8);
    const auto fourth = row.pixels(offsets + 3 * kBlocks, coefficients + 3 * kBlocks * 8);
    const auto even = hn::Or(first, hn::ShiftLeft<16>(second));
    const auto odd = hn::Or(third, hn::ShiftLeft<16>(fourth));
    const auto bytes = hn::BitCast(d8, hn::Or(even, hn::ShiftLeft<8>(odd)));
    auto four = hn::BitCast(du32, hn::TableLookupBytes(bytes, to_pixels));
    if constexpr (kBlocks > 1) four = hn::TableLookupLanes(four, in_order);
    hn::StoreU(hn::BitCast(d8, four), d8, out + x * kPixelBytes);
    offsets += 4 * kBlocks;
    coefficients += 4 * kBlocks * 8;
  }
}

void resample(const std::uint8_t* in, const Columns& columns, std::uint8_t* out) noexcept {
  switch (columns.table().taps()) {
    case 1: return resample_taps<1>(in, columns, out);
    case 2: return resample_taps<2>(in, columns, out);
    case 3: return resample_taps<3>(in, columns, out);
    case 4: return resample_taps<4>(in, columns, out);
    case 5: return resample_taps<5>(in, columns, out);
    case 6: return resample_taps<6>(in, columns, out);
    case 7: return resample_taps<7>(in, columns, out);
    case 8: return resample_taps<8>(in, columns, out);
    default: return resample_taps<0>(in, columns, out);
  }
}

// Mixing rows.

// Mixes two rows by linear interpolation. With coefficients that sum to 2^14 the rounded mean is a
// + ((b - a) * coefficient + 2^13 >> 14), which a 16-bit multiplication can compute.
template <class D8>
class TwoRows {
  using D16 = hn::Repartition<std::int16_t, D8>;
  using DU16 = hn::Repartition<std::uint16_t, D8>;

 public:
  explicit HWY_INLINE TwoRows(const RowMix& mix)
      : first_(mix.rows[0]), second_(mix.rows[1]), coefficient_(hn::Set(D16(), mix.coefficients[1])) {}

  HWY_INLINE hn::Vec<D8> operator()(std::size_t at) const {
    const auto low = hn::Set(DU16(), 0xff);
    const auto a = hn::BitCast(DU16(), hn::LoadU(D8(), first_ + at));
    const auto b = hn::BitCast(DU16(), hn::LoadU(D8(), second_ + at));
    const auto even = between(hn::And(a, low), hn::And(b, low));
    const auto odd = between(hn::ShiftRight<8>(a), hn::ShiftRight<8>(b));
    return hn::BitCast(D8(), hn::Or(even, hn::ShiftLeft<8>(odd)));
  }

 private:
  HWY_INLINE hn::Vec<DU16> between(hn::Vec<DU16> from, hn::Vec<DU16> to) const {
    const auto first = hn::BitCast(D16(), from);
    const auto distance = hn::Sub(hn::BitCast(D16(), to), first);
    // MulFixedPoint15 shifts by 15 instead of 14, so the distance is doubled.
    return hn::BitCast(DU16(), hn::Add(first, hn::MulFixedPoint15(hn::Add(distance, distance), coefficient_)));
  }

  const std::uint8_t* first_;
  const std::uint8_t* second_;
  hn::Vec<D16> coefficient_;
};

// Puts pairs of bytes in order that come alternately from the lower and the upper half of a block.
alignas(kBlock) constexpr Pattern kHalvesInOrder{0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};

// Mixes any number of rows, two at a time. When two rows are interleaved by 16 bits, their even
// bytes become pairs, and so do their odd ones. kTaps is the number of rows, or 0 if it is only
// known at run time.
template <std::size_t kTaps, class D8>
class ManyRows {
  using D16 = hn::Repartition<std::int16_t, D8>;
  using DU16 = hn::Repartition<std::uint16_t, D8>;
  using D32 = hn::Repartition<std::int32_t, D8>;
  static constexpr std::size_t kPairs = kTaps != 0 ? (kTaps + 1) / 2 : 1;

 public:
  explicit HWY_INLINE ManyRows(const RowMix& mix) : mix_(mix), precision_(mix.precision) {
    // The compiler keeps copies that no store can change in registers.
    if constexpr (kTaps != 0) {
      for (std::size_t t = 0; t < kTaps; ++t) rows_[t] = mix.rows[t];
      for (std::size_t pair = 0; pair < kPairs; ++pair) coefficients_[pair] = coefficients_of(2 * pair);
    }
  }

  HWY_INLINE hn::Vec<D8> operator()(std::size_t at) const {
    const auto half = hn::Set(D32(), 1 << (precision_ - 1));
    Sums sums{half, half, half, half};
    if constexpr (kTaps != 0) {
      for (std::size_t t = 0; t < kTaps; t += 2) {
        add(sums, rows_[t] + at, rows_[t + 1 < kTaps ? t + 1 : t] + at, coefficients_[t / 2]);
      }
    } else {
      for (std::size_t t = 0; t < mix_.taps; t += 2) {
        add(sums, mix_.rows[t] + at, mix_.rows[t + 1 < mix_.taps ? t + 1 : t] + at, coefficients_of(t));
      }
    }
    const auto lower = hn::Or(rounded(sums.lower_even), hn::ShiftLeft<8>(rounded(sums.lower_odd)));
    const auto upper = hn::Or(rounded(sums.upper_even), hn::ShiftLeft<8>(rounded(sums.upper_odd)));
    const auto bytes = hn::BitCast(D8(), hn::Or(lower, hn::ShiftLeft<16>(upper)));
    return hn::TableLookupBytes(bytes, hn::LoadDup128(D8(), kHalvesInOrder.data()));
  }

 private:
  struct Sums {
    hn::Vec<D32> lower_even, lower_odd, upper_even, upper_odd;
  };

  // Coefficients t and t + 1; the second is 0 after the last.
  HWY_INLINE hn::Vec<D16> coefficients_of(std::size_t t) const {
    const std::int32_t second = t + 1 < mix_.taps ? mix_.coefficients[t + 1] : 0;
    return hn::BitCast(D16(), hn::Set(D32(), pair_of(mix_.coefficients[t], second)));
  }

  static HWY_INLINE void add(Sums& sums, const std::uint8_t* first, const std::uint8_t* second,
                             hn::Vec<D16> coefficients) {
    const auto low = hn::Set(DU16(), 0xff);
    const auto a = hn::BitCast(DU16(), hn::LoadU(D8(), first));
    const auto b = hn::BitCast(DU16(), hn::LoadU(D8(), second));
    const auto lower = hn::InterleaveLower(DU16(), a, b);
    const auto upper = hn::InterleaveUpper(DU16(), a, b);
    sums.lower_even = add_products(hn::And(lower, low), coefficients, sums.lower_even);
    sums.lower_odd = add_products(hn::ShiftRight<8>(lower), coefficients, sums.lower_odd);
    sums.upper_even = add_products(hn::And(upper, low), coefficients, sums.upper_even);
    sums.upper_odd = add_products(hn::ShiftRight<8>(upper), coefficients, sums.upper_odd);
  }

  static HWY_INLINE hn::Vec<D32> add_products(hn::Vec<DU16> pairs, hn::Vec<D16> coefficients, hn::Vec<D32> sums) {
    return add_pairs(D32(), hn::BitCast(D16(), pairs), coefficients, sums);
  }

  HWY_INLINE hn::Vec<D32> rounded(hn::Vec<D32> sums) const { return shift_right(D32(), sums, precision_); }

  const RowMix& mix_;
  int precision_;
  std::array<const std::uint8_t*, kPairs * 2> rows_{};
  hn::Vec<D16> coefficients_[kPairs];  // std::array would not get this target's instructions
};

template <std::size_t kTaps, class D8>
HWY_INLINE void blend_taps(D8 d8, const RowMix& mix, std::size_t count, std::uint8_t* out) {
  constexpr std::size_t kLanes = hn::MaxLanes(D8());
  if (count < kLanes) {
    if constexpr (kLanes > kBlock) return blend_taps<kTaps>(hn::Half<D8>(), mix, count, out);
    return scalar_kernels().blend(mix, count, out);
  }
  const std::conditional_t<kTaps == 2, TwoRows<D8>, ManyRows<kTaps, D8> > mixed(mix);
  std::size_t at = 0;
  for (; at + kLanes <= count; at += kLanes) hn::StoreU(mixed(at), d8, out + at);
  // The last vector mixes some bytes a second time, to the same values.
  if (at < count) hn::StoreU(mixed(count - kLanes), d8, out + count - kLanes);
}

void blend(const RowMix& mix, std::size_t count, std::uint8_t* out) noexcept {
  const hn::CappedTag<std::uint8_t, 4 * kBlock> d8;
  switch (mix.taps) {
    case 2: return mix.precision == 14 ? blend_taps<2>(d8, mix, count, out) : blend_taps<0>(d8, mix, count, out);
    case 3: return blend_taps<3>(d8, mix, count, out);
    case 4: return blend_taps<4>(d8, mix, count, out);
    case 5: return blend_taps<5>(d8, mix, count, out);
    case 6: return blend_taps<6>(d8, mix, count, out);
    case 7: return blend_taps<7>(d8, mix, count, out);
    case 8: return blend_taps<8>(d8, mix, count, out);
    default: return blend_taps<0>(d8, mix, count, out);
  }
}

void set_resize(Kernels& kernels) {
  kernels.resample = resample;
  kernels.blend = blend;
}

#endif
}  // namespace forebay::make::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "jpeg/simd_dispatch.hpp"

namespace forebay::make {

void set_resize_kernels(std::int64_t target, Kernels& kernels) { FOREBAY_CALL_COMPILED(target, set_resize(kernels)); }

}  // namespace forebay::make
#endif
