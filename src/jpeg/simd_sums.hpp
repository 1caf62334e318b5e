// Included once per kind of processor, by the files that are compiled for each; so it has no
// #pragma once.
#if defined(FOREBAY_SIMD_SUMS) == defined(HWY_TARGET_TOGGLE)
#ifdef FOREBAY_SIMD_SUMS
#undef FOREBAY_SIMD_SUMS
#else
#define FOREBAY_SIMD_SUMS
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

// Vectors of 16-bit samples and coefficients, and their weighted sums.
HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::CappedTag<std::int16_t, 32>;
using DU16 = hn::RebindToUnsigned<D16>;
using D32 = hn::Repartition<std::int32_t, D16>;
using D64 = hn::Repartition<std::uint64_t, D16>;
using D8 = hn::Repartition<std::uint8_t, D16>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
using V8 = hn::Vec<D8>;

constexpr std::size_t kLanes = hn::MaxLanes(D16());
constexpr std::size_t kBytes = 2 * kLanes;

// Lanes clamped to bytes. Each 16-byte block of the result holds the lanes of that block of
// `first`, then those of `second`.
HWY_INLINE V8 packed(V16 first, V16 second) {
#if HWY_TARGET == HWY_AVX3
  return V8{_mm512_packus_epi16(first.raw, second.raw)};
#elif HWY_TARGET == HWY_AVX2
  return V8{_mm256_packus_epi16(first.raw, second.raw)};
#elif HWY_TARGET == HWY_SSE4
  return V8{_mm_packus_epi16(first.raw, second.raw)};
#else
  static_assert(kBytes == 16);
  const hn::Half<D8> half;
  return hn::Combine(D8(), hn::DemoteTo(half, second), hn::DemoteTo(half, first));
#endif
}

// 32-bit sums for the lanes of a V16: `low` for the lower half of each 16-byte block, `high` for
// the upper half.
struct Sums {
  V32 low;
  V32 high;
};
HWY_INLINE Sums operator+(Sums a, Sums b) { return {hn::Add(a.low, b.low), hn::Add(a.high, b.high)}; }
HWY_INLINE Sums operator-(Sums a, Sums b) { return {hn::Sub(a.low, b.low), hn::Sub(a.high, b.high)}; }

template <int kShift>
HWY_INLINE V16 narrowed(Sums a) {
  return hn::ReorderDemote2To(D16(), hn::ShiftRight<kShift>(a.low), hn::ShiftRight<kShift>(a.high));
}

// Weighted sums of two vectors.
class Pairs {
 public:
#if HWY_TARGET == HWY_NEON
  HWY_INLINE Pairs(V16 a, V16 b) : a_(a), b_(b) {}
  HWY_INLINE Sums sum(int first, int second) const {
    const auto f = static_cast<std::int16_t>(first);
    const auto s = static_cast<std::int16_t>(second);
    return {V32(vmlal_n_s16(vmull_n_s16(vget_low_s16(a_.raw), f), vget_low_s16(b_.raw), s)),
            V32(vmlal_n_s16(vmull_n_s16(vget_high_s16(a_.raw), f), vget_high_s16(b_.raw), s))};
  }

 private:
  V16 a_;
  V16 b_;
#else
  HWY_INLINE Pairs(V16 a, V16 b) : low_(hn::InterleaveLower(D16(), a, b)), high_(hn::InterleaveUpper(D16(), a, b)) {}
  HWY_INLINE Sums sum(int first, int second) const {
    const auto pair = static_cast<std::int32_t>((static_cast<std::uint32_t>(first) & 0xffffU) |
                                                static_cast<std::uint32_t>(second) << 16U);
    const auto weights = hn::BitCast(D16(), hn::Set(D32(), pair));
    return {product(low_, weights), product(high_, weights)};
  }

 private:
  static HWY_INLINE V32 product(V16 pairs, V16 weights) {
    V32 second = hn::Zero(D32());
    const V32 first = hn::ReorderWidenMulAccumulate(D32(), pairs, weights, hn::Zero(D32()), second);
    return hn::RearrangeToOddPlusEven(first, second);
  }

  V16 low_;
  V16 high_;
#endif
};

#endif
}  // namespace forebay::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
