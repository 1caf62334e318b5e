#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "coefficients.hpp"
#include "pixel_kernels.hpp"

// This file is compiled once for each kind of processor.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_pixels.cpp"
// Blocks of 16 bytes are put together to vectors of a known size; SSSE3 would serve processors of 2006.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace forebay::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

void set_pixels(PixelKernels& /*kernels*/) {}

#else
namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::CappedTag<std::int16_t, 32>;
using DU16 = hn::RebindToUnsigned<D16>;
using D32 = hn::Repartition<std::int32_t, D16>;
using D64 = hn::Repartition<std::uint64_t, D16>;
using D8 = hn::Repartition<std::uint8_t, D16>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
using V8 = hn::Vec<D8>;

constexpr std::size_t kSide = CoefficientRow::kSide;
constexpr std::size_t kRowStep = CoefficientRow::kGroup * kSide;  // between two rows of a block
constexpr std::size_t kLanes = hn::MaxLanes(D16());
constexpr std::size_t kBytes = 2 * kLanes;
constexpr std::size_t kBlocks = kLanes / kSide;  // of which a vector has a row

// Lanes clamped to bytes; those of a 16-byte block of `first`, then those of the same block of `second`.
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

// ---------------------------------------------------------------- inverse DCT

// Twice as many lanes of 32 bits as of 16: those of the lower and of the upper halves of all blocks of 16 bytes.
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

// Rounded, the results of one dimension: what the even numbers give, and what the odd ones add or take away.
template <int kShift>
HWY_INLINE void combine(const Sums (&even)[4], const Sums (&odd)[4], V16* v) {
  for (std::size_t i = 0; i < 4; ++i) {
    v[i] = narrowed<kShift>(even[i] + odd[i]);
    v[7 - i] = narrowed<kShift>(even[i] - odd[i]);
  }
}

// One dimension of the inverse DCT, eight numbers that are eight vectors, in place. The constants are cosines times
// 2^13, those of libjpeg's algorithm multiplied out. With kCorner the last four numbers are 0.
template <bool kCorner, int kShift>
HWY_INLINE void transform_lines(V16* v, V32 half) {
  const Sums rounding{half, half};
  const Pairs p13(v[1], v[3]);
  if constexpr (kCorner) {
    const Pairs p02(v[0], v[2]);
    const Sums even[4] = {p02.sum(8192, 10703) + rounding, p02.sum(8192, 4433) + rounding,
                          p02.sum(8192, -4433) + rounding, p02.sum(8192, -10703) + rounding};
    const Sums odd[4] = {p13.sum(11363, 9633), p13.sum(9633, -2259), p13.sum(6437, -11362), p13.sum(2260, -6436)};
    combine<kShift>(even, odd, v);
  } else {
    const Pairs p04(v[0], v[4]);
    const Pairs p26(v[2], v[6]);
    const Pairs p57(v[5], v[7]);
    const Sums sum = p04.sum(8192, 8192) + rounding;
    const Sums difference = p04.sum(8192, -8192) + rounding;
    const Sums outer = p26.sum(10703, 4433);
    const Sums inner = p26.sum(4433, -10704);
    const Sums even[4] = {sum + outer, difference + inner, difference - inner, sum - outer};
    const Sums odd[4] = {p13.sum(11363, 9633) + p57.sum(6437, 2260), p13.sum(9633, -2259) + p57.sum(-11362, -6436),
                         p13.sum(6437, -11362) + p57.sum(2261, 9633), p13.sum(2260, -6436) + p57.sum(9633, -11363)};
    combine<kShift>(even, odd, v);
  }
}

template <class D>
HWY_INLINE void interleave(V16 a, V16 b, V16& lower, V16& upper) {
  const D d;
  lower = hn::BitCast(D16(), hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
  upper = hn::BitCast(D16(), hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

// Rows become columns in each block of 8 x 8. With kCorner only the first four of the new rows are made.
template <bool kCorner>
HWY_INLINE void transpose(V16* v) {
  V16 a[8];
  V16 b[8];
  for (std::size_t i = 0; i < 4; ++i) interleave<D16>(v[2 * i], v[2 * i + 1], a[i], a[4 + i]);
  for (std::size_t i = 0; i < (kCorner ? 2 : 4); ++i) interleave<D32>(a[2 * i], a[2 * i + 1], b[2 * i], b[2 * i + 1]);
  for (std::size_t i = 0; i < (kCorner ? 2 : 4); ++i) {
    const std::size_t at = i / 2 * 4 + i % 2;
    interleave<D64>(b[at], b[at + 2], v[2 * i], v[2 * i + 1]);
  }
}

// Stores eight rows of samples for the eight columns in v, as bytes.
HWY_INLINE void store_columns(const V16* v, std::uint8_t* out, std::size_t stride) {
  const D8 d8;
  const D16 d16;
  const D32 d32;
  const D64 d64;
  const hn::Half<D8> half;
  const V8 p04 = packed(v[0], v[4]);
  const V8 p15 = packed(v[1], v[5]);
  const V8 p26 = packed(v[2], v[6]);
  const V8 p37 = packed(v[3], v[7]);
  const auto c01 = hn::BitCast(d16, hn::InterleaveLower(d8, p04, p15));
  const auto c45 = hn::BitCast(d16, hn::InterleaveUpper(d8, p04, p15));
  const auto c23 = hn::BitCast(d16, hn::InterleaveLower(d8, p26, p37));
  const auto c67 = hn::BitCast(d16, hn::InterleaveUpper(d8, p26, p37));
  const auto store = [&](V16 left, V16 right, std::uint8_t* to) HWY_ATTR {
    // A block of 16 bytes has two rows of a block of 8 x 8.
    const auto rows01 = hn::BitCast(d64, hn::InterleaveLower(d32, hn::BitCast(d32, left), hn::BitCast(d32, right)));
    const auto rows23 = hn::BitCast(d64, hn::InterleaveUpper(d32, hn::BitCast(d32, left), hn::BitCast(d32, right)));
    const auto rows02 = hn::BitCast(d8, hn::ConcatEven(d64, rows23, rows01));
    const auto rows13 = hn::BitCast(d8, hn::ConcatOdd(d64, rows23, rows01));
    hn::StoreU(hn::LowerHalf(half, rows02), half, to);
    hn::StoreU(hn::LowerHalf(half, rows13), half, to + stride);
    hn::StoreU(hn::UpperHalf(half, rows02), half, to + 2 * stride);
    hn::StoreU(hn::UpperHalf(half, rows13), half, to + 3 * stride);
  };
  store(hn::InterleaveLower(d16, c01, c23), hn::InterleaveLower(d16, c45, c67), out);
  store(hn::InterleaveUpper(d16, c01, c23), hn::InterleaveUpper(d16, c45, c67), out + 4 * stride);
}

// Bits that stay 0 while all is within the bounds that PixelKernels::transform() states.
struct Excess {
  V16 coefficients;
  V16 values;   // the sign counts
  V16 samples;  // the upper six bits count

  HWY_INLINE bool is_none() const {
    const D16 d;
    const auto sign = hn::And(values, hn::Set(d, static_cast<std::int16_t>(-0x8000)));
    const auto upper = hn::And(samples, hn::Set(d, static_cast<std::int16_t>(-0x400)));
    return hn::AllTrue(d, hn::Eq(hn::Or(coefficients, hn::Or(sign, upper)), hn::Zero(d)));
  }
};

// The blocks of a vector. With kCorner only the first four coefficients of their first four rows may differ from 0.
template <bool kCorner>
HWY_INLINE void transform_blocks(std::int16_t* blocks, const std::uint16_t* quantiser, std::uint8_t* out,
                                 std::size_t stride, Excess& excess) {
  const D16 d;
  constexpr std::size_t kRows = kCorner ? 4 : 8;
  V16 v[8];
  for (std::size_t i = 0; i < kRows; ++i) {
    const V16 coefficients = hn::Load(d, blocks + i * kRowStep);
    hn::Store(hn::Zero(d), d, blocks + i * kRowStep);
    const V16 factors = hn::BitCast(d, hn::LoadDup128(DU16(), quantiser + i * kSide));
    v[i] = hn::Mul(coefficients, factors);
    // c * q / 2^14 to nearest: 0 for -8192 to 8191.
    excess.coefficients = hn::Or(excess.coefficients, hn::MulFixedPoint15(coefficients, hn::Add(factors, factors)));
  }
  transform_lines<kCorner, 11>(v, hn::Set(D32(), 1 << 10));
  const V16 middle = hn::Set(d, 16384);
  for (std::size_t i = 0; i < 8; i += 2) {
    excess.values = hn::Or3(excess.values, hn::Add(v[i], middle), hn::Add(v[i + 1], middle));
  }
  transpose<kCorner>(v);
  // Rounds, and moves samples by 128.
  transform_lines<kCorner, 18>(v, hn::Set(D32(), (1 << 17) + (128 << 18)));
  const V16 lowest = hn::Set(d, 512 - 128);
  for (std::size_t i = 0; i < 8; i += 2) {
    excess.samples = hn::Or3(excess.samples, hn::Add(v[i], lowest), hn::Add(v[i + 1], lowest));
  }
  store_columns(v, out, stride);
}

// Whether the blocks of a vector have nothing but their corners of 4 x 4: the zigzag reaches position 10 outside.
HWY_INLINE bool are_corners(const std::uint8_t* extents) {
  std::uint32_t all = 0;
  std::memcpy(&all, extents, kBlocks);
  return ((all + 0x76767676U) & 0x80808080U) == 0;
}

bool transform(std::int16_t* blocks, const std::uint8_t* extents, std::size_t count, const std::uint16_t* quantiser,
               std::uint8_t* out, std::size_t stride) noexcept {
  const V16 zero = hn::Zero(D16());
  Excess excess{zero, zero, zero};
  for (std::size_t b = 0; b < count; b += kBlocks) {
    std::int16_t* const at = blocks + CoefficientRow::place_of(b);
    if (are_corners(extents + b)) {
      transform_blocks<true>(at, quantiser, out + b * kSide, stride, excess);
    } else {
      transform_blocks<false>(at, quantiser, out + b * kSide, stride, excess);
    }
  }
  return excess.is_none();
}

// ---------------------------------------------------------------- upsampling

HWY_INLINE V16 samples_at(const std::uint8_t* row) {
  const hn::Half<D8> half;
  return hn::PromoteTo(D16(), hn::LoadU(half, row));
}

HWY_INLINE V16 three_times(V16 value) { return hn::Add(value, hn::Add(value, value)); }

template <bool kMixes>
HWY_INLINE void double_sums(const std::uint16_t* sums, std::size_t count, std::uint8_t* out) {
  const D16 d;
  const DU16 du;
  constexpr int kShift = kMixes ? 4 : 2;
  const V16 first = hn::Set(d, kMixes ? 8 : 1);
  const V16 second = hn::Set(d, kMixes ? 7 : 2);
  const auto load = [&](std::size_t at) HWY_ATTR { return hn::BitCast(d, hn::LoadU(du, sums + at)); };
  for (std::size_t x = 0; x < count; x += kLanes) {
    const V16 own = three_times(load(x + 1));
    const V16 even = hn::ShiftRight<kShift>(hn::Add(hn::Add(own, first), load(x)));
    const V16 odd = hn::ShiftRight<kShift>(hn::Add(hn::Add(own, second), load(x + 2)));
    hn::StoreU(hn::BitCast(D8(), hn::Or(even, hn::ShiftLeft<8>(odd))), D8(), out + 2 * x);
  }
}

void double_across(const ChromaRows& rows, std::size_t count, std::uint16_t* sums, std::uint8_t* out) noexcept {
  const DU16 du;
  const std::uint8_t* const near = rows.near - 1;
  if (rows.far == nullptr) {
    for (std::size_t x = 0; x < count + 2; x += kLanes) hn::StoreU(hn::BitCast(du, samples_at(near + x)), du, sums + x);
    return double_sums<false>(sums, count, out);
  }
  const std::uint8_t* const far = rows.far - 1;
  for (std::size_t x = 0; x < count + 2; x += kLanes) {
    const V16 sum = hn::Add(three_times(samples_at(near + x)), samples_at(far + x));
    hn::StoreU(hn::BitCast(du, sum), du, sums + x);
  }
  double_sums<true>(sums, count, out);
}

void mix_rows(const ChromaRows& rows, std::size_t count, int bias, std::uint8_t* out) noexcept {
  const D8 d8;
  const D16 d;
  const V16 rounding = hn::Set(d, static_cast<std::int16_t>(bias));
  const V8 zero = hn::Zero(d8);
  const auto mixed = [&](V8 near, V8 far) HWY_ATTR {
    return hn::ShiftRight<2>(hn::Add(hn::Add(three_times(hn::BitCast(d, near)), hn::BitCast(d, far)), rounding));
  };
  for (std::size_t x = 0; x < count; x += kBytes) {
    const V8 near = hn::LoadU(d8, rows.near + x);
    const V8 far = hn::LoadU(d8, rows.far + x);
    hn::StoreU(packed(mixed(hn::InterleaveLower(d8, near, zero), hn::InterleaveLower(d8, far, zero)),
                      mixed(hn::InterleaveUpper(d8, near, zero), hn::InterleaveUpper(d8, far, zero))),
               d8, out + x);
  }
}

// ---------------------------------------------------------------- colour

struct Colours16 {
  V16 red;
  V16 green;
  V16 blue;
};

// Of chroma from which 128 was taken. The products are those of libjpeg's tables for all their 256 indices.
HWY_INLINE Colours16 coloured(V16 luma, V16 cb, V16 cr) {
  const D16 d;
  // 1.402 = 1 + 0.402, 1.772 = 2 - 0.228
  const V16 red = hn::Add(cr, hn::MulFixedPoint15(cr, hn::Set(d, 13173)));
  const V16 blue = hn::Add(hn::Add(cb, cb), hn::MulFixedPoint15(cb, hn::Set(d, -7471)));
  const Sums half{hn::Set(D32(), 1 << 15), hn::Set(D32(), 1 << 15)};
  // -0.71414 = -1 + 0.28586
  const V16 green = hn::Sub(narrowed<16>(Pairs(cb, cr).sum(-22554, 18734) + half), cr);
  return {hn::Add(luma, red), hn::Add(luma, green), hn::Add(luma, blue)};
}

// Calls store(x, to) for every vector of pixels; the last one goes through memory of its own unless it is a whole one.
template <class Store>
HWY_INLINE void store_pixels(std::size_t count, std::uint8_t* out, const Store& store) {
  std::size_t x = 0;
  for (; x + kBytes <= count; x += kBytes) store(x, out + 3 * x);
  if (x == count) return;
  HWY_ALIGN std::array<std::uint8_t, 3 * kBytes> last;
  store(x, last.data());
  std::memcpy(out + 3 * x, last.data(), 3 * (count - x));
}

void from_ycc(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept {
  const D8 d8;
  const D16 d;
  const std::uint8_t* const y = parts[0];
  const std::uint8_t* const cb = parts[1];
  const std::uint8_t* const cr = parts[2];
  const V8 zero = hn::Zero(d8);
  const V16 middle = hn::Set(d, 128);
  store_pixels(count, out, [&](std::size_t x, std::uint8_t* to) HWY_ATTR {
    const V8 luma = hn::LoadU(d8, y + x);
    const V8 blue = hn::LoadU(d8, cb + x);
    const V8 red = hn::LoadU(d8, cr + x);
    const auto lower = [&](V8 bytes) HWY_ATTR { return hn::BitCast(d, hn::InterleaveLower(d8, bytes, zero)); };
    const auto upper = [&](V8 bytes) HWY_ATTR { return hn::BitCast(d, hn::InterleaveUpper(d8, bytes, zero)); };
    const auto low = coloured(lower(luma), hn::Sub(lower(blue), middle), hn::Sub(lower(red), middle));
    const auto high = coloured(upper(luma), hn::Sub(upper(blue), middle), hn::Sub(upper(red), middle));
    hn::StoreInterleaved3(packed(low.red, high.red), packed(low.green, high.green), packed(low.blue, high.blue), d8,
                          to);
  });
}

void from_rgb(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept {
  const D8 d8;
  const std::uint8_t* const red = parts[0];
  const std::uint8_t* const green = parts[1];
  const std::uint8_t* const blue = parts[2];
  store_pixels(count, out, [&](std::size_t x, std::uint8_t* to) HWY_ATTR {
    hn::StoreInterleaved3(hn::LoadU(d8, red + x), hn::LoadU(d8, green + x), hn::LoadU(d8, blue + x), d8, to);
  });
}

void from_grey(const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept {
  const std::uint8_t* const all[] = {parts[0], parts[0], parts[0]};
  from_rgb(all, count, out);
}

void set_pixels(PixelKernels& kernels) {
  kernels.transform = transform;
  kernels.double_across = double_across;
  kernels.mix_rows = mix_rows;
  kernels.from_ycc = from_ycc;
  kernels.from_rgb = from_rgb;
  kernels.from_grey = from_grey;
}

#endif
}  // namespace forebay::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay {

void set_pixel_kernels(std::int64_t target, PixelKernels& kernels) {
  switch (target) {
#if HWY_TARGETS & HWY_AVX3
    case HWY_AVX3: return N_AVX3::set_pixels(kernels);
#endif
#if HWY_TARGETS & HWY_AVX2
    case HWY_AVX2: return N_AVX2::set_pixels(kernels);
#endif
#if HWY_TARGETS & HWY_SSE4
    case HWY_SSE4: return N_SSE4::set_pixels(kernels);
#endif
#if HWY_TARGETS & HWY_NEON
    case HWY_NEON: return N_NEON::set_pixels(kernels);
#endif
    default: return;
  }
}

}  // namespace forebay
#endif
