#pragma once

#include <cstdint>

#include "base/device_function.hpp"

// The fixed-point coefficients with which pixels are resampled, by integer arithmetic alone. Host
// and device compile these same functions. All are pure; any thread may call.
namespace forebay::make {

// value / by. Nearly always both fit 32 bits, which divide in a fraction of the time. REQUIRES: 0
// <= value; 0 < by.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t quotient(std::int32_t value, std::int32_t by) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(value) / static_cast<std::uint32_t>(by));
}
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int64_t quotient(std::int64_t value, std::int64_t by) noexcept {
  if ((value | by) >> 32 == 0) return static_cast<std::uint32_t>(value) / static_cast<std::uint32_t>(by);
  return value / by;
}

// The geometry of resampling `in` pixels to `out` pixels.
struct ResamplingAxis {
  std::int32_t in = 0;
  std::int32_t out = 0;
  std::int32_t taps = 0;       // coefficients per output pixel
  std::int32_t precision = 0;  // the coefficients sum to 2^precision
  // Input pixel x has its centre at (2x + 1) * scale_out, output pixel i at (2i + 1) * scale_in +
  // shift.
  std::int32_t scale_in = 0;
  std::int32_t scale_out = 0;
  std::int64_t shift = 0;

  friend bool operator==(const ResamplingAxis&, const ResamplingAxis&) = default;
};

// 14 bits of precision, and one more each time the scale doubles, since the coefficients halve; at
// most 22, so that 255 * 2^precision plus rounding fits 32 bits.
constexpr std::int32_t kBasePrecision = 14;
constexpr std::int32_t kMaxPrecision = 22;
static_assert(255LL * (1LL << kMaxPrecision) + (1LL << (kMaxPrecision - 1)) < (1LL << 31));

// REQUIRES: 1 <= in, out <= 2^18.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr ResamplingAxis resampling_axis(std::int32_t in, std::int32_t out) noexcept {
  ResamplingAxis axis{in, out, 0, kBasePrecision, in, out, 0};
  for (std::int64_t scaled = std::int64_t{2} * out; scaled <= in && axis.precision < kMaxPrecision; scaled *= 2) {
    ++axis.precision;
  }
  // A window is open at both ends and 2 * max(in, out) / out wide; with equal sizes its second
  // pixel has no weight.
  const std::int64_t wider = in > out ? in : out;
  const std::int64_t widest = in == out ? 1 : quotient(2 * wider + out - 1, std::int64_t{out});
  axis.taps = static_cast<std::int32_t>(widest < in ? widest : in);
  return axis;
}

// A part of an axis: `count` outputs from output `from` on, made of `in` inputs from input `first`
// on. REQUIRES: both are within the axis, and the inputs include all that have a weight in these
// outputs.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr ResamplingAxis part_of(const ResamplingAxis& whole, std::int32_t first,
                                                                   std::int32_t in, std::int32_t from,
                                                                   std::int32_t count) noexcept {
  ResamplingAxis part = whole;
  part.in = in;
  part.out = count;
  part.taps = whole.taps < in ? whole.taps : in;
  part.shift += 2 * (std::int64_t{from} * whole.scale_in - std::int64_t{first} * whole.scale_out);
  return part;
}

// Whether rows are mixed before they are resampled: if the result has fewer rows than the input.
// Then the more expensive step, along the row, is done for the smaller number of rows. Each step
// rounds to 8 bits, so the order is part of the definition of a pixel.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr bool mixes_first(const ResamplingAxis& rows) noexcept {
  return rows.scale_in > rows.scale_out;
}

// The weights of input pixels in output pixel i. In the coordinates of ResamplingAxis, the triangle
// falls from 2 * max(scale_in, scale_out) at the centre to 0 at that same distance from it.
// REQUIRES, for a 32-bit Number: is_narrow(axis).
template <class Number>
class TriangleWindowOf {
 public:
  FOREBAY_HOST_DEVICE constexpr TriangleWindowOf(const ResamplingAxis& axis, std::int32_t i) noexcept
      : out_(axis.scale_out),
        reach_(2 * Number{axis.scale_in > axis.scale_out ? axis.scale_in : axis.scale_out}),
        centre_((2 * Number{i} + 1) * axis.scale_in + static_cast<Number>(axis.shift)) {
    // The first x with (2x + 1) * out > centre - reach, and the first after it with (2x + 1) * out
    // >= centre + reach.
    const Number before = centre_ - reach_ - out_;
    first_ = before < 0 ? 0 : quotient(before, 2 * out_) + 1;
    const Number end = quotient(centre_ + reach_ - out_ + 2 * out_ - 1, 2 * out_);
    count_ = static_cast<std::int32_t>((end < axis.in ? end : axis.in) - first_);
  }

  // The number of pixels with a weight, and the first of them.
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t count() const noexcept { return count_; }
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t first() const noexcept {
    return static_cast<std::int32_t>(first_);
  }
  // The weight of pixel first() + t, which is positive. REQUIRES: 0 <= t < count().
  [[nodiscard]] FOREBAY_HOST_DEVICE constexpr Number weight(std::int32_t t) const noexcept {
    const Number distance = (2 * (first_ + t) + 1) * out_ - centre_;
    return reach_ - (distance < 0 ? -distance : distance);
  }

 private:
  Number out_;
  Number reach_;
  Number centre_;
  Number first_ = 0;
  std::int32_t count_ = 0;
};
using TriangleWindow = TriangleWindowOf<std::int64_t>;

// Whether all numbers of the axis' windows fit 32 bits: positions are below 2^25 + 2^26, sums of
// weights below 2^26.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr bool is_narrow(const ResamplingAxis& axis) noexcept {
  constexpr std::int32_t kMost = 1 << 12;
  constexpr std::int64_t kFarthest = std::int64_t{1} << 26;
  return axis.in <= kMost && axis.out <= kMost && axis.scale_in <= kMost && axis.scale_out <= kMost &&
         axis.shift < kFarthest && axis.shift > -kFarthest;
}

// weight / sum * 2^precision, rounded to nearest. REQUIRES: 0 <= weight <= sum.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t fixed_point(std::int64_t weight, std::int64_t sum,
                                                                     std::int32_t precision) noexcept {
  // Nearly always 32 bits are enough, which divide in a fraction of the time.
  if (sum < std::int64_t{1} << (30 - precision)) {
    const auto narrow = static_cast<std::uint32_t>(sum);
    return static_cast<std::int32_t>(((static_cast<std::uint32_t>(weight) << (precision + 1)) + narrow) / (2 * narrow));
  }
  return static_cast<std::int32_t>(((weight << (precision + 1)) + sum) / (2 * sum));
}

// Like resample_coefficients(), but each output is computed by itself, as a part_of() an axis
// requires, instead of mirroring the lower half.
template <class Number>
FOREBAY_HOST_DEVICE constexpr std::int32_t window_coefficients(const ResamplingAxis& axis, std::int32_t i,
                                                               std::int16_t* coefficients) noexcept {
  const TriangleWindowOf<Number> window(axis, i);
  Number sum = 0;
  std::int32_t peak = 0;
  for (std::int32_t t = 0; t < window.count(); ++t) {
    sum += window.weight(t);
    if (window.weight(t) > window.weight(peak)) peak = t;
  }
  // A window shorter than axis.taps is filled up with zeros, on the side where there are pixels.
  const std::int32_t last_start = axis.in - axis.taps;
  const std::int32_t first = window.first() < last_start ? window.first() : last_start;
  for (std::int32_t t = 0; t < axis.taps; ++t) coefficients[t] = 0;
  std::int16_t* const row = coefficients + (window.first() - first);
  // Running sums are rounded from both ends towards the peak, which takes the rest. So errors do
  // not accumulate, and symmetric weights give symmetric coefficients.
  std::int32_t rest = 1 << axis.precision;
  Number running = 0;
  std::int32_t given = 0;
  for (std::int32_t t = 0; t < peak; ++t) {
    running += window.weight(t);
    const std::int32_t until = fixed_point(running, sum, axis.precision);
    row[t] = static_cast<std::int16_t>(until - given);
    given = until;
  }
  rest -= given;
  running = 0;
  given = 0;
  for (std::int32_t t = window.count() - 1; t > peak; --t) {
    running += window.weight(t);
    const std::int32_t until = fixed_point(running, sum, axis.precision);
    row[t] = static_cast<std::int16_t>(until - given);
    given = until;
  }
  row[peak] = static_cast<std::int16_t>(rest - given);
  return first;
}

FOREBAY_HOST_DEVICE constexpr std::int32_t window_coefficients(const ResamplingAxis& axis, std::int32_t i,
                                                               std::int16_t* coefficients) noexcept {
  return is_narrow(axis) ? window_coefficients<std::int32_t>(axis, i, coefficients)
                         : window_coefficients<std::int64_t>(axis, i, coefficients);
}

// Writes the axis.taps coefficients of output pixel i and returns the input pixel of the first; all
// of them lie within the row. Outputs that mirror each other have mirrored coefficients. REQUIRES:
// 0 <= i < axis.out; the axis is not a part_of() another; for a 32-bit Number also is_narrow(axis).
template <class Number>
FOREBAY_HOST_DEVICE constexpr std::int32_t resample_coefficients(const ResamplingAxis& axis, std::int32_t i,
                                                                 std::int16_t* coefficients) noexcept {
  const bool is_upper = 2 * i + 1 > axis.out;
  const std::int32_t first = window_coefficients<Number>(axis, is_upper ? axis.out - 1 - i : i, coefficients);
  if (!is_upper) return first;
  for (std::int32_t low = 0, high = axis.taps - 1; low < high; ++low, --high) {
    const std::int16_t kept = coefficients[low];
    coefficients[low] = coefficients[high];
    coefficients[high] = kept;
  }
  return axis.in - first - axis.taps;
}
FOREBAY_HOST_DEVICE constexpr std::int32_t resample_coefficients(const ResamplingAxis& axis, std::int32_t i,
                                                                 std::int16_t* coefficients) noexcept {
  return is_narrow(axis) ? resample_coefficients<std::int32_t>(axis, i, coefficients)
                         : resample_coefficients<std::int64_t>(axis, i, coefficients);
}

}  // namespace forebay::make
