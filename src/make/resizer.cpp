// Resamples an image one row at a time, on demand, so that a row is still in the first-level cache
// when it is converted. There are two orders. When shrinking, rows are mixed first and the mixed
// row is resampled. When enlarging, rows are resampled first, and each serves several output rows.
// The order depends only on sizes (mixes_first()), so results do not depend on anything else.
// Intermediate values are rounded to 8 bits in both. Belongs to one decoder thread, or to a
// renderer.

#include "resizer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace forebay::make {
namespace {

template <typename T>
void grow(std::vector<T>& values, std::size_t size) {
  if (values.size() < size) values.resize(size);
}

PixelRows rows_of(const Image& image) noexcept {
  return {.first = image.pixels.data(),
          .row_bytes = static_cast<std::size_t>(image.width) * Columns::kInputPixelBytes,
          .end = image.pixels.data() + image.pixels.size()};
}

}  // namespace

void Resizer::begin(const Image& image, const Box& region, std::int32_t out_width, std::int32_t out_height,
                    bool mirror) {
  begin(rows_of(image), region, out_width, out_height, mirror);
}

void Resizer::begin(const Image& image, const Box& region, const ResamplingAxis& across, const ResamplingAxis& down,
                    bool mirror) {
  begin(rows_of(image), region, across, down, mirror);
}

void Resizer::begin(const PixelRows& pixels, const Box& region, std::int32_t out_width, std::int32_t out_height,
                    bool mirror) {
  begin(pixels, region, resampling_axis(region.width(), out_width), resampling_axis(region.height(), out_height),
        mirror);
}

// Prepares the tables and buffers, which only grow. Rows must then be requested in ascending order.
void Resizer::begin(const PixelRows& pixels, const Box& region, const ResamplingAxis& across,
                    const ResamplingAxis& down, bool mirror) {
  pixels_ = pixels;
  region_ = region;
  is_surrounded_ = false;
  mix_first_ = mixes_first(down);
  columns_.set(across, mirror);
  rows_.set(down);
  resampled_ = 0;
  const std::size_t row_bytes = columns_.padded_width() * kPixelBytes;
  grow(inputs_, rows_.taps());
  grow(wide_, static_cast<std::size_t>(region.width()) * Columns::kInputPixelBytes + Columns::kReadAhead);
  grow(output_, row_bytes);
  if (!mix_first_) grow(narrow_, 2 * row_bytes);
}

void Resizer::surround(std::int32_t left, std::int32_t top, std::int32_t width, const FillPixel& fill) {
  is_surrounded_ = true;
  left_ = left;
  top_ = top;
  outside_.assign(static_cast<std::size_t>(width), fill);
  surrounded_ = outside_;
}

const std::uint8_t* Resizer::row(std::int32_t y) { return is_surrounded_ ? surrounded_row(y) : resized_row(y); }

// The resized pixels are copied into a row that already has the fill on both sides. Only views with
// a border need this copy.
const std::uint8_t* Resizer::surrounded_row(std::int32_t y) {
  if (y < top_ || y >= top_ + rows_.out()) return outside_.front().data();
  std::memcpy(surrounded_[static_cast<std::size_t>(left_)].data(), resized_row(y - top_),
              static_cast<std::size_t>(columns_.table().out()) * kPixelBytes);
  return surrounded_.front().data();
}

const std::uint8_t* Resizer::resized_row(std::int32_t y) {
  return mix_first_ ? mixed_then_resampled(y) : resampled_then_mixed(y);
}

const std::uint8_t* Resizer::region_row(std::int32_t y) const noexcept {
  return pixels_.row(region_.top + y) + static_cast<std::size_t>(region_.left) * Columns::kInputPixelBytes;
}

const std::uint8_t* Resizer::mixed_then_resampled(std::int32_t y) noexcept {
  const std::int32_t first = rows_.first(y);
  const std::size_t taps = rows_.taps();
  for (std::size_t t = 0; t < taps; ++t) inputs_[t] = region_row(first + static_cast<std::int32_t>(t));
  kernels_->blend({inputs_.data(), rows_.coefficients(y), taps, rows_.precision()},
                  static_cast<std::size_t>(region_.width()) * Columns::kInputPixelBytes, wide_.data());
  kernels_->resample(wide_.data(), columns_, output_.data());
  return output_.data();
}

const std::uint8_t* Resizer::resampled_then_mixed(std::int32_t y) noexcept {
  const std::int32_t first = rows_.first(y);
  // The number of rows does not decrease, so an output row is mixed from two at most.
  if (rows_.taps() == 1) return resampled_row(first);
  inputs_[0] = resampled_row(first);
  inputs_[1] = resampled_row(first + 1);
  kernels_->blend({inputs_.data(), rows_.coefficients(y), 2, rows_.precision()}, columns_.padded_width() * kPixelBytes,
                  output_.data());
  return output_.data();
}

// Keeps the last two rows; enlarging needs no others. The kernel reads some bytes beyond a row's
// pixels, so a row at the very end of the image's memory is copied first.
const std::uint8_t* Resizer::resampled_row(std::int32_t y) noexcept {
  const std::size_t row_bytes = columns_.padded_width() * kPixelBytes;
  for (; resampled_ <= y; ++resampled_) {
    const std::uint8_t* in = region_row(resampled_);
    const std::size_t in_bytes = static_cast<std::size_t>(region_.width()) * Columns::kInputPixelBytes;
    if (static_cast<std::size_t>(pixels_.end - in) < in_bytes + Columns::kReadAhead) {
      std::memcpy(wide_.data(), in, in_bytes);
      in = wide_.data();
    }
    kernels_->resample(in, columns_, narrow_.data() + static_cast<std::size_t>(resampled_ % 2) * row_bytes);
  }
  return narrow_.data() + static_cast<std::size_t>(y % 2) * row_bytes;
}

}  // namespace forebay::make
