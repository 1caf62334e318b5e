#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "resample.hpp"

namespace forebay {

// How the pixels of a row become those of a narrower or wider one: the table of a Resampling, and the same numbers laid
// out for vectors, in the order of the output (mirrored or not).
// One thread's; memory is kept and only grows.
class Columns {
 public:
  // Of an input row: red, green, blue.
  static constexpr std::size_t kInputPixelBytes = 3;
  // Output pixels are made this many at a time; what is laid out for vectors is filled up to a multiple of it.
  static constexpr std::size_t kGroup = 16;
  // Bytes behind the last pixel of an input row that may be read, and must therefore be there; they do not count.
  static constexpr std::size_t kReadAhead = 16;

  // For rows of `in` to `out` pixels; with `mirror` left and right of the output are exchanged.
  // REQUIRES: 1 <= in, out <= Resampling::kMaxSide.
  void set(std::int32_t in, std::int32_t out, bool mirror);

  [[nodiscard]] const Resampling& table() const noexcept { return table_; }
  [[nodiscard]] bool mirror() const noexcept { return mirror_; }

  // Output pixels, filled up to whole groups.
  [[nodiscard]] std::size_t padded_width() const noexcept { return padded_width_; }
  // For each output pixel where the first of its table().taps() input pixels lies in the row, in bytes.
  [[nodiscard]] const std::int32_t* offsets() const noexcept { return offsets_.data(); }
  // Coefficients 2 * pair and 2 * pair + 1 of each output pixel, repeated for four channels: eight numbers per pixel.
  // Behind the last coefficient stands a zero. REQUIRES: 2 * pair < table().taps().
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

}  // namespace forebay
