// The inverse DCT with Highway: dequantises, transforms columns, transposes, transforms rows, and
// stores bytes, for as many blocks at a time as a vector holds rows of eight. It equals libjpeg's
// jidctint bit by bit as long as nothing exceeds 16 bits. Excess checks that along the way: by one
// OR per value instead of branches, evaluated once for a whole row of blocks. If a bound is
// exceeded the caller passes the file to libjpeg-turbo.
//
// Most blocks of photographs have coefficients only in their corner of 4 x 4. For those
// (are_corners()) the multiplications with zeros are left out.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "coefficients.hpp"
#include "pixel_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_transform.cpp"
// Scalable vectors (SVE, RVV) are excluded because the code combines 16-byte blocks into vectors of
// known size, SSSE3 because only processors of 2006 would need it.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

void set_transform(PixelKernels& /*kernels*/) {}

#else
constexpr std::size_t kSide = CoefficientRow::kSide;
constexpr std::size_t kRowStep = CoefficientRow::kGroup * kSide;  // between rows of a block
constexpr std::size_t kBlocks = kLanes / kSide;                   // per vector, one row of each

// The rounded results of one dimension: the even part plus and minus the odd part.
template <int kShift>
HWY_INLINE void combine(const Sums (&even)[4], const Sums (&odd)[4], V16* v) {
  for (std::size_t i = 0; i < 4; ++i) {
    v[i] = narrowed<kShift>(even[i] + odd[i]);
    v[7 - i] = narrowed<kShift>(even[i] - odd[i]);
  }
}

// One dimension of the inverse DCT: eight numbers, each in its own vector, in place. The constants
// are cosines times 2^13, those of libjpeg's algorithm multiplied out. With kCorner the last four
// numbers are 0.
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

// Interleaves elements of D within each block of 16 bytes.
template <class D>
HWY_INLINE void interleave(V16 a, V16 b, V16& lower, V16& upper) {
  const D d;
  lower = hn::BitCast(D16(), hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
  upper = hn::BitCast(D16(), hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

// Transposes each block of 8 x 8. With kCorner only the first four of the new rows are computed.
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

// Stores eight rows of samples as bytes, given the eight columns in v.
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
    // A block of 16 bytes holds two rows of a block of 8 x 8.
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

// Bits that stay 0 while all values are within the bounds of PixelKernels::transform().
struct Excess {
  V16 coefficients;
  V16 values;   // only the sign bit counts
  V16 samples;  // only the upper six bits count

  HWY_INLINE bool is_none() const {
    const D16 d;
    const auto sign = hn::And(values, hn::Set(d, static_cast<std::int16_t>(-0x8000)));
    const auto upper = hn::And(samples, hn::Set(d, static_cast<std::int16_t>(-0x400)));
    return hn::AllTrue(d, hn::Eq(hn::Or(coefficients, hn::Or(sign, upper)), hn::Zero(d)));
  }
};

// Transforms the blocks of a vector. With kCorner only the first four coefficients of their first
// four rows may be non-zero.
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
    // c * q / 2^14, rounded to nearest, is 0 for -8192 to 8191.
    excess.coefficients = hn::Or(excess.coefficients, hn::MulFixedPoint15(coefficients, hn::Add(factors, factors)));
  }
  transform_lines<kCorner, 11>(v, hn::Set(D32(), 1 << 10));
  const V16 middle = hn::Set(d, 16384);
  for (std::size_t i = 0; i < 8; i += 2) {
    excess.values = hn::Or3(excess.values, hn::Add(v[i], middle), hn::Add(v[i + 1], middle));
  }
  transpose<kCorner>(v);
  // Rounds, and adds 128 to the samples.
  transform_lines<kCorner, 18>(v, hn::Set(D32(), (1 << 17) + (128 << 18)));
  const V16 lowest = hn::Set(d, 512 - 128);
  for (std::size_t i = 0; i < 8; i += 2) {
    excess.samples = hn::Or3(excess.samples, hn::Add(v[i], lowest), hn::Add(v[i + 1], lowest));
  }
  store_columns(v, out, stride);
}

// Whether all blocks of a vector have coefficients only in their corners of 4 x 4: the first zigzag
// position outside is 10.
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

void set_transform(PixelKernels& kernels) { kernels.transform = transform; }

#endif
}  // namespace forebay::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd_dispatch.hpp"

namespace forebay::jpeg {

void set_transform_kernel(std::int64_t target, PixelKernels& kernels) {
  FOREBAY_CALL_COMPILED(target, set_transform(kernels));
}

}  // namespace forebay::jpeg
#endif
