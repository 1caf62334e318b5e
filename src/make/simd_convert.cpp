// From rows of pixels to elements of a tensor, with Highway, compiled once per kind of processor:
// float, half, bfloat16 and bytes, planar or interleaved, and the colour matrix. A lane is a pixel
// of four bytes, from which a channel is extracted by a shift. Results equal the table of
// conversion.cpp; that is tried before a kernel is used. In conversions the last vector of a row
// overlaps the one before it, which avoids scalar code; kernels that work in place cannot do that.
//
// Large batches are stored past the caches (Transform::stores_for()), but only rows that fill whole
// cache lines. The caller executes the fence that such stores need.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels.hpp"
#include "pixel_math.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_convert.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace forebay::make::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

void set_convert(Kernels& /*kernels*/) {}

#else
namespace hn = hwy::HWY_NAMESPACE;

// One lane per pixel.
using Pixels = hn::CappedTag<std::uint32_t, 16>;
constexpr std::size_t kLanes = hn::MaxLanes(Pixels());
constexpr std::size_t kLine = 64;  // bytes

// Extracts one channel of a vector of pixels.
template <int kChannel>
HWY_INLINE hn::Vec<Pixels> channel_of(hn::Vec<Pixels> pixels) {
  return hn::And(hn::ShiftRight<8 * kChannel>(pixels), hn::Set(Pixels(), 0xff));
}

// The following classes convert the bytes of a channel to elements, as lanes of Element.
class ToFloat {
 public:
  using Element = float;

  explicit HWY_INLINE ToFloat(const Conversion& conversion) : conversion_(conversion) {}
  template <int kChannel>
  HWY_INLINE auto operator()(hn::Vec<Pixels> pixels) const {
    const hn::Rebind<float, Pixels> df;
    const hn::Rebind<std::int32_t, Pixels> di;
    const auto value = hn::ConvertTo(df, hn::BitCast(di, channel_of<kChannel>(pixels)));
    return hn::MulAdd(value, hn::Set(df, conversion_.scale[kChannel]), hn::Set(df, conversion_.offset[kChannel]));
  }

 private:
  const Conversion& conversion_;
};

class ToHalf {
 public:
  using Element = std::uint16_t;

  explicit HWY_INLINE ToHalf(const Conversion& conversion) : to_float_(conversion) {}
  template <int kChannel>
  HWY_INLINE auto operator()(hn::Vec<Pixels> pixels) const {
    const hn::Rebind<hwy::float16_t, Pixels> dh;
    return hn::BitCast(hn::Rebind<std::uint16_t, Pixels>(),
                       hn::DemoteTo(dh, to_float_.template operator()<kChannel>(pixels)));
  }

 private:
  ToFloat to_float_;
};

class ToBfloat {
 public:
  using Element = std::uint16_t;

  explicit HWY_INLINE ToBfloat(const Conversion& conversion) : to_float_(conversion) {}
  template <int kChannel>
  HWY_INLINE auto operator()(hn::Vec<Pixels> pixels) const {
    const Pixels du;
    // A bfloat16 is the upper half of a float. Adding just under half a unit of its last place, or
    // exactly half if that place is odd, rounds to nearest, ties to even.
    const auto bits = hn::BitCast(du, to_float_.template operator()<kChannel>(pixels));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
    return hn::DemoteTo(hn::Rebind<std::uint16_t, Pixels>(), hn::BitCast(hn::Rebind<std::int32_t, Pixels>(), rounded));
  }

 private:
  ToFloat to_float_;
};

class ToByte {
 public:
  using Element = std::uint8_t;

  explicit HWY_INLINE ToByte(const Conversion& /*conversion*/) {}
  template <int kChannel>
  HWY_INLINE auto operator()(hn::Vec<Pixels> pixels) const {
    return hn::U8FromU32(channel_of<kChannel>(pixels));
  }
};

// Streaming stores need addresses that are multiples of the vector's size; fills_lines() ensures
// that.
template <bool kStream, class V, typename Element>
HWY_INLINE void write(V elements, Element* out) {
  const hn::Rebind<Element, Pixels> d;
  if constexpr (kStream) {
    hn::Stream(elements, d, out);
  } else {
    hn::StoreU(elements, d, out);
  }
}

HWY_INLINE hn::Vec<Pixels> pixels_at(const std::uint8_t* row, std::size_t x) {
  const Pixels d;
  return hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, Pixels>(), row + x * kPixelBytes));
}

// Converts one channel of kCount vectors of pixels, from x on.
template <int kChannel, std::size_t kCount, bool kStream, class To>
HWY_INLINE void convert_channel(const To& to, const std::uint8_t* row, std::size_t x, typename To::Element* plane) {
  for (std::size_t i = 0; i < kCount * kLanes; i += kLanes) {
    write<kStream>(to.template operator()<kChannel>(pixels_at(row, x + i)), plane + x + i);
  }
}

// Converts a row to planes. REQUIRES: width >= kLanes; with kStream also fills_lines().
template <bool kStream, class To>
HWY_INLINE void convert_planes(const std::uint8_t* row, const Conversion& conversion, typename To::Element* out) {
  // Streaming stores should write whole cache lines in order.
  constexpr std::size_t kCount = kStream ? std::max<std::size_t>(1, kLine / sizeof(typename To::Element) / kLanes) : 1;
  const To to(conversion);
  const std::size_t width = conversion.width;
  const std::size_t plane = conversion.plane;
  const auto convert_at = [&](std::size_t x) HWY_ATTR {
    convert_channel<0, kCount, kStream>(to, row, x, out);
    convert_channel<1, kCount, kStream>(to, row, x, out + plane);
    convert_channel<2, kCount, kStream>(to, row, x, out + 2 * plane);
  };
  std::size_t x = 0;
  for (; x + kCount * kLanes <= width; x += kCount * kLanes) convert_at(x);
  // The last vector converts some pixels a second time, to the same values.
  if (x < width) convert_at(width - kLanes);
}

// Likewise with interleaved channels.
template <bool kStream, class To>
HWY_INLINE void convert_pixels(const std::uint8_t* row, const Conversion& conversion, typename To::Element* out) {
  using Element = typename To::Element;
  const hn::Rebind<Element, Pixels> d;
  const To to(conversion);
  const std::size_t width = conversion.width;
  const auto interleave = [&](std::size_t x, Element* at) HWY_ATTR {
    const auto pixels = pixels_at(row, x);
    hn::StoreInterleaved3(to.template operator()<0>(pixels), to.template operator()<1>(pixels),
                          to.template operator()<2>(pixels), d, at);
  };
  const auto convert_at = [&](std::size_t x) HWY_ATTR {
    if constexpr (kStream) {
      HWY_ALIGN std::array<Element, 3 * kLanes> three;
      interleave(x, three.data());
      for (std::size_t i = 0; i < 3; ++i) {
        write<true>(hn::Load(d, three.data() + i * kLanes), out + 3 * x + i * kLanes);
      }
    } else {
      interleave(x, out + 3 * x);
    }
  };
  std::size_t x = 0;
  for (; x + kLanes <= width; x += kLanes) convert_at(x);
  if (x < width) convert_at(width - kLanes);
}

// Four pixels of a block become twelve bytes at its beginning; the next block overwrites the four
// zeros after them.
void copy_pixels(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept {
  const hn::Full128<std::uint8_t> d;
  alignas(16) constexpr std::array<std::uint8_t, 16> kColours{0,  1,  2,  4,  5,    6,    8,    9,
                                                              10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};
  const auto colours = hn::Load(d, kColours.data());
  const std::size_t width = conversion.width;
  std::size_t x = 0;
  auto* to = reinterpret_cast<std::uint8_t*>(out);
  for (; 3 * x + 16 <= 3 * width; x += 4) {
    hn::StoreU(hn::TableLookupBytesOr0(hn::LoadU(d, row + x * kPixelBytes), colours), d, to + 3 * x);
  }
  for (; x < width; ++x) std::memcpy(out + 3 * x, row + x * kPixelBytes, 3);
}

// Whether a row fills whole cache lines. Only then are stores past the caches worthwhile: a line
// that is written in two parts goes to memory twice.
template <typename Element>
bool fills_lines(const Conversion& conversion, const std::byte* out) {
  const bool planar = conversion.layout == Layout::nchw;
  const std::size_t row_bytes = conversion.width * (planar ? 1 : 3) * sizeof(Element);
  return reinterpret_cast<std::uintptr_t>(out) % kLine == 0 && row_bytes % kLine == 0 &&
         conversion.width % kLanes == 0 && (!planar || conversion.plane * sizeof(Element) % kLine == 0);
}

template <class To>
HWY_INLINE void convert_with(const std::uint8_t* row, const Conversion& conversion, std::byte* out) {
  using Element = typename To::Element;
  if (conversion.width < kLanes) return scalar_kernels().convert(row, conversion, out);
  const bool planar = conversion.layout == Layout::nchw;
  auto* const to = reinterpret_cast<Element*>(out);
  // A streaming store writes at least 16 bytes.
  if (kLanes * sizeof(Element) >= 16 && conversion.stream && fills_lines<Element>(conversion, out)) {
    return planar ? convert_planes<true, To>(row, conversion, to) : convert_pixels<true, To>(row, conversion, to);
  }
  return planar ? convert_planes<false, To>(row, conversion, to) : convert_pixels<false, To>(row, conversion, to);
}

void convert(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept {
  switch (conversion.dtype) {
    case DType::float32: return convert_with<ToFloat>(row, conversion, out);
    case DType::float16: return convert_with<ToHalf>(row, conversion, out);
    case DType::bfloat16: return convert_with<ToBfloat>(row, conversion, out);
    case DType::uint8:
      return conversion.layout == Layout::nchw ? convert_with<ToByte>(row, conversion, out)
                                               : copy_pixels(row, conversion, out);
    case DType::int32:
    case DType::int64:
    case DType::float64: return;  // never an image's type
  }
}

template <class To>
HWY_INLINE void convert_grey_with(const std::uint8_t* row, const Conversion& conversion, std::byte* out) {
  const std::size_t width = conversion.width;
  if (width < kLanes) return scalar_kernels().convert_grey(row, conversion, out);
  const To to(conversion);
  auto* const elements = reinterpret_cast<typename To::Element*>(out);
  std::size_t x = 0;
  for (; x + kLanes <= width; x += kLanes) convert_channel<0, 1, false>(to, row, x, elements);
  if (x < width) convert_channel<0, 1, false>(to, row, width - kLanes, elements);
}

void convert_grey(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept {
  switch (conversion.dtype) {
    case DType::float32: return convert_grey_with<ToFloat>(row, conversion, out);
    case DType::float16: return convert_grey_with<ToHalf>(row, conversion, out);
    case DType::bfloat16: return convert_grey_with<ToBfloat>(row, conversion, out);
    case DType::uint8: return convert_grey_with<ToByte>(row, conversion, out);
    case DType::int32:
    case DType::int64:
    case DType::float64: return;  // never an image's type
  }
}

using Sums = hn::Rebind<std::int32_t, Pixels>;
using SumLanes = hn::Vec<Sums>;

// One channel of the new pixels, clamped to a byte.
HWY_INLINE SumLanes mixed_lanes(const std::array<std::int32_t, 4>& row, SumLanes red, SumLanes green, SumLanes blue) {
  const Sums d;
  const auto coloured = hn::Add(hn::Mul(red, hn::Set(d, row[0])), hn::Mul(green, hn::Set(d, row[1])));
  const auto sum = hn::Add(coloured, hn::Add(hn::Mul(blue, hn::Set(d, row[2])), hn::Set(d, row[3])));
  return hn::Min(hn::Max(hn::ShiftRight<ColourMatrix::kPrecision>(sum), hn::Zero(d)), hn::Set(d, 255));
}

void recolour(const std::uint8_t* row, const ColourMatrix& matrix, std::size_t width, std::uint8_t* out) noexcept {
  const Sums d;
  std::size_t x = 0;
  for (; x + kLanes <= width; x += kLanes) {
    const auto pixels = pixels_at(row, x);
    const auto red = hn::BitCast(d, channel_of<0>(pixels));
    const auto green = hn::BitCast(d, channel_of<1>(pixels));
    const auto blue = hn::BitCast(d, channel_of<2>(pixels));
    const auto changed = hn::Or(mixed_lanes(matrix.rows[0], red, green, blue),
                                hn::Or(hn::ShiftLeft<8>(mixed_lanes(matrix.rows[1], red, green, blue)),
                                       hn::ShiftLeft<16>(mixed_lanes(matrix.rows[2], red, green, blue))));
    hn::StoreU(hn::BitCast(hn::Repartition<std::uint8_t, Sums>(), changed), hn::Repartition<std::uint8_t, Sums>(),
               out + x * kPixelBytes);
  }
  // The rest goes through scalar code: `out` may be the row itself, so an overlapping vector would
  // change pixels twice.
  scalar_kernels().recolour(row + x * kPixelBytes, matrix, width - x, out + x * kPixelBytes);
}

void blend_halves(std::uint16_t* one, std::uint16_t* other, std::size_t count, float share) noexcept {
  const hn::Rebind<float, Pixels> d;
  const hn::Rebind<hwy::float16_t, Pixels> dh;
  const hn::Rebind<std::uint16_t, Pixels> bits;
  const auto blend = [&](auto a, auto b, std::uint16_t* out) HWY_ATTR {
    const auto sum = hn::Add(hn::Mul(hn::Set(d, 1 - share), a), hn::Mul(hn::Set(d, share), b));
    hn::StoreU(hn::BitCast(bits, hn::DemoteTo(dh, sum)), bits, out);
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto a = hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(bits, one + i)));
    const auto b = hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(bits, other + i)));
    blend(a, b, one + i);
    blend(b, a, other + i);
  }
  scalar_kernels().blend_halves(one + i, other + i, count - i, share);
}

void set_convert(Kernels& kernels) {
  kernels.convert = convert;
  kernels.convert_grey = convert_grey;
  kernels.recolour = recolour;
  // SSE4 has no conversion to halves, and Highway's substitute truncates instead of rounding.
  if (HWY_TARGET != HWY_SSE4) kernels.blend_halves = blend_halves;
}

#endif
}  // namespace forebay::make::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "jpeg/simd_dispatch.hpp"

namespace forebay::make {

void set_convert_kernel(std::int64_t target, Kernels& kernels) { FOREBAY_CALL_COMPILED(target, set_convert(kernels)); }

}  // namespace forebay::make
#endif
