// Images with more than 8 bits per value: rotation, conversion between one and three channels, and
// resizing. They are rare, so this is plain code in double precision, without the vector kernels.
// Called on decoder threads, each with its own images and resizer.

#include "wide_image.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "image.hpp"

namespace forebay::make {
namespace {

std::size_t wide_count(std::int32_t width, std::int32_t height, int channels) noexcept {
  return static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * static_cast<std::size_t>(channels);
}

template <typename T>
void grow_to(std::vector<T>& values, std::size_t size) {
  if (values.size() < size) values.resize(size);
}

}  // namespace

void WideImage::resize(std::int32_t new_width, std::int32_t new_height, int new_channels) {
  width = new_width;
  height = new_height;
  channels = new_channels;
  grow_to(values, wide_count(width, height, channels));
}

// Such large images are rare, so their memory (four bytes per value) is not kept for the next one.
void WideImage::release_large() {
  constexpr std::size_t kMostHeld = std::size_t{16} << 20U;
  if (values.capacity() * sizeof(float) > kMostHeld) values = {};
}

void turn(const WideImage& from, int orientation, WideImage& to) {
  const bool swaps = swaps_axes(orientation);
  to.resize(swaps ? from.height : from.width, swaps ? from.width : from.height, from.channels);
  const auto channels = static_cast<std::size_t>(from.channels);
  float* out = to.values.data();
  for (std::int32_t y = 0; y < to.height; ++y) {
    for (std::int32_t x = 0; x < to.width; ++x, out += channels) {
      const Box pixel = stored_box({x, y, x + 1, y + 1}, from.width, from.height, orientation);
      std::copy_n(from.values.data() + wide_count(from.width, pixel.top, from.channels) +
                      static_cast<std::size_t>(pixel.left) * channels,
                  channels, out);
    }
  }
}

// Converts in place: from three channels to one forwards, from one to three backwards, so that no
// value is overwritten before it is read.
void set_channels(int channels, WideImage& image) {
  if (channels == image.channels) return;
  const std::size_t pixels = wide_count(image.width, image.height, 1);
  grow_to(image.values, wide_count(image.width, image.height, channels));
  float* const values = image.values.data();
  if (channels == 1) {
    for (std::size_t i = 0; i < pixels; ++i) {
      const double sum = kRedOfGrey * double{values[3 * i]} + kGreenOfGrey * double{values[3 * i + 1]} +
                         kBlueOfGrey * double{values[3 * i + 2]};
      values[i] = static_cast<float>(sum / kAllOfGrey);
    }
  } else {
    for (std::size_t i = pixels; i-- > 0;) std::fill_n(values + 3 * i, 3, float{values[i]});
  }
  image.channels = channels;
}

// The same triangle filter as for 8-bit images, in double, normalised by the sum of its weights.
void WideResizer::Axis::set(const ResamplingAxis& axis, bool mirror) {
  windows.clear();
  weights.clear();
  for (std::int32_t i = 0; i < axis.out; ++i) {
    const TriangleWindow window(axis, i);
    std::int64_t sum = 0;
    for (std::int32_t t = 0; t < window.count(); ++t) sum += window.weight(t);
    windows.push_back({.first = window.first(), .count = window.count(), .weights = weights.size()});
    for (std::int32_t t = 0; t < window.count(); ++t) {
      weights.push_back(static_cast<double>(window.weight(t)) / static_cast<double>(sum));
    }
  }
  if (mirror) std::ranges::reverse(windows);
}

template <typename Number>
void WideResizer::mix_rows(const Number* from, std::size_t from_row, std::size_t row, double* to) const {
  for (const Axis::Window& window : down_.windows) {
    std::fill_n(to, row, 0.0);
    for (std::int32_t t = 0; t < window.count; ++t) {
      const double weight = down_.weights[window.weights + static_cast<std::size_t>(t)];
      const Number* const in = from + static_cast<std::size_t>(window.first + t) * from_row;
      for (std::size_t i = 0; i < row; ++i) to[i] += weight * double{in[i]};
    }
    to += row;
  }
}

template <typename Number>
void WideResizer::mix_columns(const Number* from, std::int32_t rows, std::size_t from_row, std::size_t channels,
                              double* to) const {
  for (std::int32_t y = 0; y < rows; ++y, from += from_row) {
    for (const Axis::Window& window : across_.windows) {
      const double* const weights = across_.weights.data() + window.weights;
      const Number* const in = from + static_cast<std::size_t>(window.first) * channels;
      for (std::size_t channel = 0; channel < channels; ++channel) {
        double sum = 0;
        for (std::int32_t t = 0; t < window.count; ++t)
          sum += weights[t] * double{in[static_cast<std::size_t>(t) * channels + channel]};
        *to++ = sum;
      }
    }
  }
}

// The order of the steps follows the same rule as for bytes (mixes_first()), so that both kinds of
// images show the same.
const std::vector<double>& WideResizer::resize(const WideImage& image, const Box& region, const ResamplingAxis& across,
                                               const ResamplingAxis& down, bool mirror) {
  across_.set(across, mirror);
  down_.set(down, false);
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t in_row = wide_count(region.width(), 1, image.channels);
  const std::size_t out_row = wide_count(across.out, 1, image.channels);
  grow_to(out_, out_row * static_cast<std::size_t>(down.out));
  const std::size_t image_row = wide_count(image.width, 1, image.channels);
  const float* const first = image.values.data() + static_cast<std::size_t>(region.top) * image_row +
                             static_cast<std::size_t>(region.left) * channels;
  if (mixes_first(down)) {
    grow_to(between_, in_row * static_cast<std::size_t>(down.out));
    mix_rows(first, image_row, in_row, between_.data());
    mix_columns(between_.data(), down.out, in_row, channels, out_.data());
  } else {
    grow_to(between_, out_row * static_cast<std::size_t>(region.height()));
    mix_columns(first, region.height(), image_row, channels, between_.data());
    mix_rows(between_.data(), out_row, out_row, out_.data());
  }
  return out_;
}

}  // namespace forebay::make
