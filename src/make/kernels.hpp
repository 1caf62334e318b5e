#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <forebay/tensor.hpp>

#include "resample.hpp"

namespace forebay::make {

struct ColourMatrix;

// Bytes per pixel in resampled rows: red, green, blue and a zero, so that a pixel is one 32-bit
// lane.
constexpr std::size_t kPixelBytes = 4;

// A weighted mean of rows of bytes.
struct RowMix {
  const std::uint8_t* const* rows;   // one per tap
  const std::int16_t* coefficients;  // not negative; their sum is 2^precision
  std::size_t taps;                  // at least 1
  int precision;                     // 14 to 22
};

// How bytes become elements of a sample. `table` defines the result; kernels that compute it
// instead do so by fma(value, scale, offset) in float, rounded to dtype.
struct Conversion {
  using Table = std::array<std::array<std::uint32_t, 256>, 3>;  // bits of the element, by channel and value

  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  std::size_t channels = 3;  // 1: convert_grey() stores only the first channel of each pixel
  std::size_t width = 0;     // pixels per row
  std::size_t plane = 0;     // elements from one channel of a pixel to the next, for Layout::nchw
  bool stream = false;       // store past the caches if rows fill whole cache lines
  std::array<float, 3> scale{};
  std::array<float, 3> offset{};
  Table table{};
};

// The steps from a decoded row to a slot, for one kind of processor. All implementations give the
// same bytes.
struct Kernels {
  const char* name;

  // Resamples a row of RGB. `out` receives padded_width() pixels of kPixelBytes; those past the
  // last are unspecified. REQUIRES: Columns::kReadAhead bytes after the row's last pixel are
  // readable.
  void (*resample)(const std::uint8_t* in, const Columns& columns, std::uint8_t* out) noexcept;

  // The weighted mean of rows of `count` bytes, byte by byte. REQUIRES: `out` overlaps no row.
  void (*blend)(const RowMix& mix, std::size_t count, std::uint8_t* out) noexcept;

  // Converts a row of `width` pixels of kPixelBytes and stores it at `out`, the position of its
  // first element in the sample, at any alignment. Writes nothing but the row's elements. Stores
  // that bypass the caches are ordered only by finish_streaming().
  void (*convert)(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept;
  // Likewise for the first channel only; the layout makes no difference.
  void (*convert_grey)(const std::uint8_t* row, const Conversion& conversion, std::byte* out) noexcept;

  // Changes the colours of `width` pixels of kPixelBytes by recoloured(). `out` is `row` itself or
  // does not overlap it.
  void (*recolour)(const std::uint8_t* row, const ColourMatrix& matrix, std::size_t width, std::uint8_t* out) noexcept;

  // Blends two rows of 16-bit floats, computing in float: each becomes 1 - share of itself plus
  // `share` of the other, rounded once at the end.
  void (*blend_halves)(std::uint16_t* one, std::uint16_t* other, std::size_t count, float share) noexcept;
};

// The plain loops, which define the results of all others. Any thread may call.
[[nodiscard]] const Kernels& scalar_kernels() noexcept;

// The kernels that this processor can run, fastest first, the scalar ones last. Never empty; the same in every call.
// Any thread may call.
[[nodiscard]] std::span<const Kernels> supported_kernels();

// The first of supported_kernels().
[[nodiscard]] inline const Kernels& best_kernels() { return supported_kernels().front(); }

// Makes this thread's stores that bypassed the caches visible before its later stores. Neither a
// release store nor a locked instruction orders such stores, so a thread calls this before it
// announces its sample (ring invariant R3).
void finish_streaming() noexcept;

// These fill in the kernels compiled for `target`, one of Highway's targets. Any thread may call.
void set_resize_kernels(std::int64_t target, Kernels& kernels);
void set_convert_kernel(std::int64_t target, Kernels& kernels);

}  // namespace forebay::make
