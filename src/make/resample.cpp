// The tables of a resampling: for each output pixel the first input pixel and the coefficients. For
// the kernel along a row the same numbers are also laid out such that one vector load gets the
// coefficients of a whole group of pixels. Tables are kept while the next sample has the same axis,
// as in datasets whose images have one size. The coefficients come from resample_math.hpp, which
// nvcc compiles too. Belongs to one decoder thread, or to a renderer.

#include "resample.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace forebay::make {

// The triangle filter is symmetric, so half of the windows of a whole axis are mirror images of the
// others.
void Resampling::set(const ResamplingAxis& axis) {
  if (axis == axis_) return;
  axis_ = axis;
  const auto outputs = static_cast<std::size_t>(axis.out);
  if (first_.size() < outputs) first_.resize(outputs);
  if (coefficients_.size() < outputs * taps()) coefficients_.resize(outputs * taps());
  const bool is_whole = axis.in == axis.scale_in && axis.out == axis.scale_out;
  const std::int32_t made = is_whole ? (axis.out + 1) / 2 : axis.out;
  for (std::int32_t i = 0; i < made; ++i) {
    const auto place = static_cast<std::size_t>(i);
    first_[place] = window_coefficients(axis_, i, coefficients_.data() + place * taps());
  }
  for (std::int32_t i = made; i < axis.out; ++i) mirror(axis.out - 1 - i, i);
}

void Resampling::mirror(std::int32_t from, std::int32_t to) {
  std::reverse_copy(coefficients(from), coefficients(from) + taps(),
                    coefficients_.data() + static_cast<std::size_t>(to) * taps());
  first_[static_cast<std::size_t>(to)] = axis_.in - first(from) - axis_.taps;
}

// The width is padded to whole groups. The padding repeats the last offset, so that it reads pixels
// that exist.
void Columns::set(const ResamplingAxis& axis, bool mirror) {
  if (axis == table_.axis() && mirror == mirror_) return;
  table_.set(axis);
  mirror_ = mirror;
  const std::int32_t out = axis.out;
  const auto width = static_cast<std::size_t>(out);
  const std::size_t pairs = (table_.taps() + 1) / 2;
  padded_width_ = (width + kGroup - 1) / kGroup * kGroup;
  if (offsets_.size() < padded_width_) offsets_.resize(padded_width_);
  if (coefficients_.size() < pairs * padded_width_ * 8) coefficients_.resize(pairs * padded_width_ * 8);
  for (std::int32_t x = 0; x < out; ++x) {
    offsets_[static_cast<std::size_t>(x)] =
        table_.first(mirror ? out - 1 - x : x) * static_cast<std::int32_t>(kInputPixelBytes);
  }
  std::fill(offsets_.begin() + out, offsets_.begin() + static_cast<std::ptrdiff_t>(padded_width_), offsets_[width - 1]);
  for (std::size_t pair = 0; pair < pairs; ++pair) lay_out(pair);
}

// Lays out pairs of coefficients, four times per pixel: for three channels and the unused byte.
// This is the order in which a vector instruction multiplies and adds neighbours.
void Columns::lay_out(std::size_t pair) {
  const auto width = static_cast<std::size_t>(table_.out());
  const auto taps = static_cast<std::ptrdiff_t>(table_.taps());
  const bool has_second = 2 * pair + 1 < table_.taps();
  const std::int16_t* from = table_.coefficients(mirror_ ? table_.out() - 1 : 0) + 2 * pair;
  const std::ptrdiff_t step = mirror_ ? -taps : taps;
  std::int16_t* to = coefficients_.data() + pair * padded_width_ * 8;
  for (std::size_t x = 0; x < width; ++x, from += step, to += 8) {
    const std::int16_t first = from[0];
    const std::int16_t second = has_second ? from[1] : std::int16_t{0};
    const std::array<std::int16_t, 8> four{first, second, first, second, first, second, first, second};
    std::memcpy(to, four.data(), sizeof four);
  }
  std::fill_n(to, (padded_width_ - width) * 8, std::int16_t{0});
}

}  // namespace forebay::make
