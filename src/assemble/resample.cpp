#include "resample.hpp"

#include <algorithm>
#include <cstdlib>

namespace forebay {
namespace {

constexpr int kBasePrecision = 14;
constexpr int kMaxPrecision = 22;
static_assert(255LL * (1LL << kMaxPrecision) + (1LL << (kMaxPrecision - 1)) < (1LL << 31));

}  // namespace

void Resampling::set(std::int32_t in, std::int32_t out) {
  if (in == in_ && out == out_) return;
  in_ = in;
  out_ = out;
  precision_ = kBasePrecision;
  for (std::int64_t scaled = std::int64_t{2} * out; scaled <= in && precision_ < kMaxPrecision; scaled *= 2) {
    ++precision_;
  }
  // A window is open at both ends and 2 * max(in, out) / out wide; with equal sizes the second pixel has no weight.
  const auto widest = in == out ? 1 : (std::int64_t{2} * std::max(in, out) + out - 1) / out;
  taps_ = static_cast<std::size_t>(std::min<std::int64_t>(widest, in));
  const auto outputs = static_cast<std::size_t>(out);
  if (first_.size() < outputs) first_.resize(outputs);
  if (coefficients_.size() < outputs * taps_) coefficients_.resize(outputs * taps_);
  if (weights_.size() < taps_) weights_.resize(taps_);
  for (std::int32_t i = 0; i < (out + 1) / 2; ++i) {
    make(i);
    if (out - 1 - i != i) mirror(i, out - 1 - i);
  }
}

// With all positions multiplied by 2 * out, input pixel x has its centre at (2x + 1) * out, output pixel i at
// (2i + 1) * in, and the triangle falls from 2 * max(in, out) to 0 over that same distance.
void Resampling::make(std::int32_t i) {
  const std::int64_t in = in_;
  const std::int64_t out = out_;
  const std::int64_t reach = 2 * std::max(in, out);
  const std::int64_t centre = (2 * std::int64_t{i} + 1) * in;
  // First x with (2x + 1) * out > centre - reach, and the first after it with (2x + 1) * out >= centre + reach.
  const auto first = centre - reach - out < 0 ? 0 : (centre - reach - out) / (2 * out) + 1;
  const auto end = std::min(in, (centre + reach - out + 2 * out - 1) / (2 * out));
  const auto count = static_cast<std::size_t>(end - first);

  std::int64_t sum = 0;
  std::size_t peak = 0;
  for (std::size_t t = 0; t < count; ++t) {
    const std::int64_t position = (2 * (first + static_cast<std::int64_t>(t)) + 1) * out;
    weights_[t] = reach - std::abs(position - centre);
    sum += weights_[t];
    if (weights_[t] > weights_[peak]) peak = t;
  }

  // Running sums are rounded from both ends towards the peak, which takes the rest: no error builds up, and symmetric
  // weights give symmetric coefficients.
  // Where the window is shorter than the others, zeros fill it up on the side where there are pixels.
  const auto row_first = std::min(first, in - static_cast<std::int64_t>(taps_));
  std::int16_t* const row = coefficients_.data() + static_cast<std::size_t>(i) * taps_;
  std::fill_n(row, taps_, std::int16_t{0});
  std::int16_t* const coefficients = row + (first - row_first);
  const auto rounded = [&](std::int64_t weight) { return ((weight << (precision_ + 1)) + sum) / (2 * sum); };
  std::int64_t rest = std::int64_t{1} << precision_;
  std::int64_t running = 0;
  std::int64_t given = 0;
  const auto give = [&](std::size_t t) {
    running += weights_[t];
    const auto coefficient = rounded(running) - given;
    given += coefficient;
    rest -= coefficient;
    coefficients[t] = static_cast<std::int16_t>(coefficient);
  };
  for (std::size_t t = 0; t < peak; ++t) give(t);
  running = given = 0;
  for (std::size_t t = count; --t > peak;) give(t);
  coefficients[peak] = static_cast<std::int16_t>(rest);
  first_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(row_first);
}

void Resampling::mirror(std::int32_t from, std::int32_t to) {
  std::reverse_copy(coefficients(from), coefficients(from) + taps_,
                    coefficients_.data() + static_cast<std::size_t>(to) * taps_);
  first_[static_cast<std::size_t>(to)] = in_ - first(from) - static_cast<std::int32_t>(taps_);
}

}  // namespace forebay
