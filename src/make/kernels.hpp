#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <forebay/tensor.hpp>

#include "resample.hpp"

namespace forebay::make {

struct ColourMatrix;

// Bytes of a pixel in resampled rows: red, green, blue and a zero, so that a pixel is one lane of 32 bits.
constexpr std::size_t kPixelBytes = 4;

// Weighted mean of some rows of bytes.
struct RowMix {
  const std::uint8_t* const* rows;   // as many as taps
  const std::int16_t* coefficients;  // they sum to 2^precision, none is negative
  std::size_t taps;                  // at least 1
  int precision;                     // 14 to 22
};

// How bytes become elements of a sample. `table` is the definition; kernels that compute its values do so by fma(value,
// scale, offset) in float, rounded to dtype.
struct Conversion {
  using Table = std::array<std::array<std::uint32_t, 256>, 3>;  // bits of the element, by channel and value

  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  std::size_t channels = 3;  // 1: only the first of each pixel, by convert_grey()
  std::size_t width = 0;     // pixels of a row
  std::size_t plane = 0;     // elements between two channels of a pixel, for Layout::nchw
  bool stream = false;       // write past the caches if rows fill whole cache lines
  std::array<float, 3> scale{};
  std::array<float, 3> offset{};
  Table table{};
};

// The steps from a decoded row to a slot, for one kind of processor. All of them give the same bytes.
struct Kernels {
  const char* name;

  // Resamples a row of RGB; `out` gets padded_width() pixels of kPixelBytes, of which those past the last are
  // unspecified. REQUIRES: Columns::kReadAhead bytes after the row's last pixel are readable.
  void (*resample)(const std::uint8_t* in, const Columns& columns, std::uint8_t* out) noexcept;

  // The mean of rows, byte by byte, `count` of them. REQUIRES: `out` overlaps no row.
  void (*blend)(const RowMix& mix, std::size_t count, std::uint8_t* out) noexcept;

  // Writes a row of `width` pixels of kPixelBytes to the position of its first element in the sample, at any alignment;
  // writes nothing but its elements. Stores that bypassed the caches are ordered only by finish_streaming().
  void (*convert)(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept;
  // The same for only the first channel, for which the layout makes no difference.
  void (*convert_grey)(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept;

  // Changes the colours of `width` pixels of kPixelBytes by recoloured(). `out` is the row itself or does not overlap
  // it.
  void (*recolour)(const std::uint8_t* row, const ColourMatrix& matrix, std::size_t width, std::uint8_t* out) noexcept;

  // Blends two rows of 16-bit floats, computing in float: each becomes 1 - share of itself plus `share` of the other,
  // rounded once more.
  void (*blend_halves)(std::uint16_t* one, std::uint16_t* other, std::size_t count, float share) noexcept;
};

// Plain loops, which define the results of the others. Any thread may call.
[[nodiscard]] const Kernels& scalar_kernels() noexcept;

// The kernels that this processor can run, fastest first, the scalar ones last. Never empty; the same in every call.
// Any thread may call.
[[nodiscard]] std::span<const Kernels> supported_kernels();

// The first of supported_kernels().
[[nodiscard]] inline const Kernels& best_kernels() { return supported_kernels().front(); }

// Makes this thread's stores that bypassed the caches visible before its later stores. Such stores are ordered neither
// by release nor by locked operations, so a thread calls this before it announces its sample (ring invariant R3).
void finish_streaming() noexcept;

// Fill in the kernels compiled for `target`, one of Highway's. Any thread may call.
void set_resize_kernels(std::int64_t target, Kernels& kernels);
void set_convert_kernel(std::int64_t target, Kernels& kernels);

}  // namespace forebay::make
