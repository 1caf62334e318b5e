// Rows of pixels with Highway: upsampling chroma, mixing rows, and converting colours.
// foreach_target.h compiles this file once for each kind of processor; the function at its end puts
// the kernels of one target into the table. The plain loops of pixel_kernels.cpp define what each
// kernel computes, and the results are equal bit by bit. All kernels read and write whole vectors
// and rely on the slack after each row.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pixel_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_rows.cpp"
// Scalable vectors (SVE, RVV) are excluded because the code combines 16-byte blocks into vectors of
// known size, SSSE3 because only processors of 2006 would need it.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

void set_rows(PixelKernels& /*kernels*/) {}

#else
HWY_INLINE V16 samples_at(const std::uint8_t* row) {
  const hn::Half<D8> half;
  return hn::PromoteTo(D16(), hn::LoadU(half, row));
}

HWY_INLINE V16 three_times(V16 value) { return hn::Add(value, hn::Add(value, value)); }

// Even and odd output pixels are computed in separate vectors, and joined as the lower and upper
// bytes of 16-bit lanes.
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

struct Colours16 {
  V16 red;
  V16 green;
  V16 blue;
};

// Takes chroma from which 128 was subtracted. libjpeg multiplies by 1.402, 1.772, 0.34414 and
// 0.71414 with 16 fractional bits and rounds. These products equal its tables for all 256 indices.
// Factors above 1 are split, because the fixed-point multiplication has only 15 bits.
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

// Calls store(x, to) for every vector of pixels; an incomplete last vector goes through a buffer.
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

void set_rows(PixelKernels& kernels) {
  kernels.double_across = double_across;
  kernels.mix_rows = mix_rows;
  kernels.from_ycc = from_ycc;
  kernels.from_rgb = from_rgb;
  kernels.from_grey = from_grey;
}

#endif
}  // namespace forebay::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "simd_dispatch.hpp"

namespace forebay::jpeg {

void set_row_kernels(std::int64_t target, PixelKernels& kernels) { FOREBAY_CALL_COMPILED(target, set_rows(kernels)); }

}  // namespace forebay::jpeg
#endif
