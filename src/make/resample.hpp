#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "resample_math.hpp"

namespace forebay::make {

// Which input pixels make each output pixel of a row (or column), and their weights. The filter is
// a triangle with half-pixel centres: as wide as the scale when shrinking (antialias), plain linear
// interpolation when enlarging, cut off at the ends of the row. The weights are ratios of integers,
// converted to fixed-point coefficients by integer arithmetic alone, so they are the same on every
// machine. Per output pixel:
//  - the coefficients sum to exactly 2^precision(): constant stays constant, and no result leaves
//    0 to 255;
//  - each is less than one unit from its exact value, and mirrored outputs of a whole axis have
//    mirrored coefficients;
//  - equal sizes give the identity.
// Coefficients are 16-bit numbers, contiguous per output pixel and the same number for each (padded
// with zeros), and 255 * 2^precision() plus rounding fits 32 bits, so loops over them vectorise and
// never mispredict their end. Belongs to one thread; set() allocates only for a table larger than
// all before.
class Resampling {
 public:
  // The longest side that set() takes: up to here its 64-bit products cannot overflow.
  static constexpr std::int32_t kMaxSide = 1 << 18;

  // Makes the table of an axis; does nothing if that is the current one.
  void set(const ResamplingAxis& axis);
  // The axis from `in` to `out` pixels. REQUIRES: 1 <= in, out <= kMaxSide.
  void set(std::int32_t in, std::int32_t out) { set(resampling_axis(in, out)); }

  // The number of coefficients of each output pixel.
  [[nodiscard]] std::size_t taps() const noexcept { return static_cast<std::size_t>(axis_.taps); }
  // The input pixel of the first coefficient; first(i) + taps() <= in(). REQUIRES: 0 <= i < out().
  [[nodiscard]] std::int32_t first(std::int32_t i) const noexcept { return first_[static_cast<std::size_t>(i)]; }
  // The taps() coefficients of output pixel i; those of the next one follow directly. REQUIRES: 0
  // <= i < out().
  [[nodiscard]] const std::int16_t* coefficients(std::int32_t i) const noexcept {
    return coefficients_.data() + static_cast<std::size_t>(i) * taps();
  }
  [[nodiscard]] const ResamplingAxis& axis() const noexcept { return axis_; }
  [[nodiscard]] std::int32_t in() const noexcept { return axis_.in; }
  [[nodiscard]] std::int32_t out() const noexcept { return axis_.out; }
  // 14 bits, and one more each time the scale doubles, since the coefficients halve; at most 22.
  [[nodiscard]] int precision() const noexcept { return axis_.precision; }

 private:
  void mirror(std::int32_t from, std::int32_t to);

  ResamplingAxis axis_;
  std::vector<std::int32_t> first_;
  std::vector<std::int16_t> coefficients_;
};

// How a row is resampled to another width: the table of a Resampling, and the same numbers laid out
// for vectors in the order of the output (mirrored or not). Belongs to one thread; memory is kept
// and only grows.
class Columns {
 public:
  // Bytes per pixel of an input row: red, green, blue.
  static constexpr std::size_t kInputPixelBytes = 3;
  // Output pixels are computed this many at a time; the vector layout is padded to a multiple of
  // it.
  static constexpr std::size_t kGroup = 16;
  // Bytes after the last pixel of an input row that may be read, so they must be readable; their
  // values do not matter.
  static constexpr std::size_t kReadAhead = 16;

  // Sets the axis along which rows are resampled; `mirror` exchanges left and right of the output.
  void set(const ResamplingAxis& axis, bool mirror);

  [[nodiscard]] const Resampling& table() const noexcept { return table_; }
  [[nodiscard]] bool mirror() const noexcept { return mirror_; }

  // Output pixels, rounded up to whole groups.
  [[nodiscard]] std::size_t padded_width() const noexcept { return padded_width_; }
  // For each output pixel: the byte offset in the row of the first of its table().taps() input
  // pixels.
  [[nodiscard]] const std::int32_t* offsets() const noexcept { return offsets_.data(); }
  // Coefficients 2 * pair and 2 * pair + 1 of each output pixel, repeated for four channels: eight
  // numbers per pixel. With an odd number of taps the last pair ends with a zero. REQUIRES: 2 *
  // pair < table().taps().
  [[nodiscard]] const std::int16_t* coefficients(std::size_t pair) const noexcept {
    return coefficients_.data() + pair * padded_width_ * 8;
  }

 private:
  void lay_out(std::size_t pair);

  Resampling table_;
  bool mirror_ = false;
  std::size_t padded_width_ = 0;
  std::vector<std::int32_t> offsets_;
  std::vector<std::int16_t> coefficients_;
};

}  // namespace forebay::make
