#include "resizer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace forebay {
namespace {

constexpr std::size_t kChannels = 3;

template <typename T>
void grow(std::vector<T>& values, std::size_t size) {
  if (values.size() < size) values.resize(size);
}

// Resamples one row of RGB. kTaps = table.taps(), or 0 for a count that the compiler does not know; a known one lets it
// unroll the inner loop.
template <std::size_t kTaps>
void resample_row(const std::uint8_t* in, const Resampling& table, bool mirror, std::uint8_t* out) noexcept {
  const std::size_t taps = kTaps != 0 ? kTaps : table.taps();
  const int precision = table.precision();
  const std::int32_t half = 1 << (precision - 1);
  const std::int32_t width = table.out();
  const std::int32_t* const firsts = table.firsts();
  const std::int16_t* coefficients = table.coefficients(0);
  const std::ptrdiff_t step = mirror ? -std::ptrdiff_t{kChannels} : std::ptrdiff_t{kChannels};
  std::uint8_t* to = mirror ? out + static_cast<std::size_t>(width - 1) * kChannels : out;
  for (std::int32_t x = 0; x < width; ++x) {
    const std::uint8_t* const pixels = in + static_cast<std::size_t>(firsts[x]) * kChannels;
    std::int32_t red = half;
    std::int32_t green = half;
    std::int32_t blue = half;
    for (std::size_t t = 0; t < taps; ++t) {
      const std::int32_t coefficient = coefficients[t];
      red += coefficient * pixels[kChannels * t];
      green += coefficient * pixels[kChannels * t + 1];
      blue += coefficient * pixels[kChannels * t + 2];
    }
    to[0] = static_cast<std::uint8_t>(red >> precision);
    to[1] = static_cast<std::uint8_t>(green >> precision);
    to[2] = static_cast<std::uint8_t>(blue >> precision);
    to += step;
    coefficients += taps;
  }
}

using ResampleRow = void (*)(const std::uint8_t*, const Resampling&, bool, std::uint8_t*) noexcept;
constexpr std::array<ResampleRow, 9> kResampleByTaps{resample_row<0>, resample_row<1>, resample_row<2>,
                                                     resample_row<3>, resample_row<4>, resample_row<5>,
                                                     resample_row<6>, resample_row<7>, resample_row<8>};

// Weighted mean of kTaps rows, byte by byte.
template <std::size_t kTaps>
void blend_rows(const std::uint8_t* const* rows, const std::int16_t* coefficients, int precision, std::size_t count,
                std::uint8_t* out) noexcept {
  // Copies that nothing can alias let the compiler keep them in registers and vectorise.
  std::array<const std::uint8_t*, kTaps> row;
  std::array<std::int16_t, kTaps> coefficient;
  std::copy_n(rows, kTaps, row.begin());
  std::copy_n(coefficients, kTaps, coefficient.begin());
  const std::int32_t half = 1 << (precision - 1);
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t sum = half;
    for (std::size_t t = 0; t < kTaps; ++t) sum += static_cast<std::int16_t>(row[t][i]) * coefficient[t];
    out[i] = static_cast<std::uint8_t>(sum >> precision);
  }
}

using BlendRows = void (*)(const std::uint8_t* const*, const std::int16_t*, int, std::size_t, std::uint8_t*) noexcept;
constexpr std::array<BlendRows, 9> kBlendByTaps{nullptr,       blend_rows<1>, blend_rows<2>,
                                                blend_rows<3>, blend_rows<4>, blend_rows<5>,
                                                blend_rows<6>, blend_rows<7>, blend_rows<8>};

// The same for any number of rows, with a running sum for each byte.
void blend_many_rows(std::span<const std::uint8_t* const> rows, const std::int16_t* coefficients, int precision,
                     std::size_t count, std::int32_t* sums, std::uint8_t* out) noexcept {
  std::fill_n(sums, count, std::int32_t{1} << (precision - 1));
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const std::uint8_t* const row = rows[t];
    const std::int16_t coefficient = coefficients[t];
    for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<std::int16_t>(row[i]) * coefficient;
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(sums[i] >> precision);
}

}  // namespace

void Resizer::begin(const Image& image, const Box& region, std::int32_t out_width, std::int32_t out_height,
                    bool mirror) {
  image_ = &image;
  region_ = region;
  mirror_ = mirror;
  next_input_ = 0;
  columns_.set(region.width(), out_width);
  rows_.set(region.height(), out_height);
  const auto row_bytes = static_cast<std::size_t>(out_width) * kChannels;
  grow(ring_, row_bytes * rows_.taps());
  grow(inputs_, rows_.taps());
  grow(sums_, row_bytes);
  grow(output_, row_bytes);
}

std::uint8_t* Resizer::ring_row(std::int32_t y) noexcept {
  const auto row_bytes = static_cast<std::size_t>(columns_.out()) * kChannels;
  return ring_.data() + static_cast<std::size_t>(y) % rows_.taps() * row_bytes;
}

void Resizer::add_input_row(std::int32_t y) noexcept {
  const std::uint8_t* in = image_->row(region_.top + y) + static_cast<std::size_t>(region_.left) * kChannels;
  const std::size_t taps = columns_.taps();
  kResampleByTaps[taps < kResampleByTaps.size() ? taps : 0](in, columns_, mirror_, ring_row(y));
}

const std::uint8_t* Resizer::row(std::int32_t y) {
  const std::int32_t first = rows_.first(y);
  const std::size_t taps = rows_.taps();
  const std::int32_t end = first + static_cast<std::int32_t>(taps);
  for (; next_input_ < end; ++next_input_) add_input_row(next_input_);

  // A row may have left the ring again when its coefficient is a zero that fills up.
  for (std::size_t t = 0; t < taps; ++t) inputs_[t] = ring_row(first + static_cast<std::int32_t>(t));
  const auto count = static_cast<std::size_t>(columns_.out()) * kChannels;
  if (taps < kBlendByTaps.size()) {
    kBlendByTaps[taps](inputs_.data(), rows_.coefficients(y), rows_.precision(), count, output_.data());
  } else {
    blend_many_rows({inputs_.data(), taps}, rows_.coefficients(y), rows_.precision(), count, sums_.data(),
                    output_.data());
  }
  return output_.data();
}

}  // namespace forebay
