#include "resample.hpp"

#include <algorithm>

namespace forebay {

void Resampling::set(std::int32_t in, std::int32_t out) {
  if (in == axis_.in && out == axis_.out) return;
  axis_ = resampling_axis(in, out);
  const auto outputs = static_cast<std::size_t>(out);
  if (first_.size() < outputs) first_.resize(outputs);
  if (coefficients_.size() < outputs * taps()) coefficients_.resize(outputs * taps());
  for (std::int32_t i = 0; i < (out + 1) / 2; ++i) {
    const auto place = static_cast<std::size_t>(i);
    first_[place] = lower_coefficients(axis_, i, coefficients_.data() + place * taps());
    if (out - 1 - i != i) mirror(i, out - 1 - i);
  }
}

void Resampling::mirror(std::int32_t from, std::int32_t to) {
  std::reverse_copy(coefficients(from), coefficients(from) + taps(),
                    coefficients_.data() + static_cast<std::size_t>(to) * taps());
  first_[static_cast<std::size_t>(to)] = axis_.in - first(from) - axis_.taps;
}

}  // namespace forebay
