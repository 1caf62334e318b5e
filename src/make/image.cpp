// Images in memory: limits on their size, rotation by EXIF orientation, grey, clamping of boxes,
// and the pixels of raw samples. Free functions that keep no state; decoder threads call them, each
// with its own images. Rotations that swap the axes go through a few rows at a time, so that they
// stay in the first-level cache.

#include "image.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>

#include <forebay/error.hpp>

#include "resample.hpp"

namespace forebay::make {
namespace {

constexpr std::size_t kPixel = 3;

void copy_pixel(const std::uint8_t* from, std::uint8_t* to) noexcept {
  to[0] = from[0];
  to[1] = from[1];
  to[2] = from[2];
}

// Rows rotated at a time: as many as stay in the first-level cache while rows become columns.
constexpr std::int32_t kRowsAtOnce = 16;

}  // namespace

// Computed in 64 bits, because both sides may be near 2^31.
void require_permitted_size(std::string_view kind, std::int64_t width, std::int64_t height,
                            const ImageOptions& options) {
  const std::int64_t pixels = width * height;
  if (pixels <= options.max_pixels) return;
  throw SampleError(std::string(kind) + " of " + std::to_string(width) + " x " + std::to_string(height) + " = " +
                    std::to_string(pixels) + " pixels: transform.max_pixels allows " +
                    std::to_string(options.max_pixels));
}

void place_rows(std::span<const std::uint8_t> rows, std::int32_t first, std::int32_t count, std::int32_t stored_width,
                std::int32_t stored_height, int orientation, Image& out) noexcept {
  const bool flip_x = flips_columns(orientation);
  const bool flip_y = flips_rows(orientation);
  const auto pixel_at = [&](std::int32_t x, std::int32_t y) {
    const auto offset = static_cast<std::size_t>(y) * static_cast<std::size_t>(stored_width);
    return rows.data() + (offset + static_cast<std::size_t>(x)) * kPixel;
  };
  if (!swaps_axes(orientation)) {
    for (std::int32_t y = 0; y < count; ++y) {
      std::uint8_t* const to = out.row(flip_y ? stored_height - 1 - (first + y) : first + y);
      for (std::int32_t x = 0; x < stored_width; ++x) {
        copy_pixel(pixel_at(x, y), to + static_cast<std::size_t>(flip_x ? stored_width - 1 - x : x) * kPixel);
      }
    }
    return;
  }
  for (std::int32_t x = 0; x < stored_width; ++x) {
    std::uint8_t* const to = out.row(flip_x ? stored_width - 1 - x : x);
    for (std::int32_t y = 0; y < count; ++y) {
      const std::int32_t column = flip_y ? stored_height - 1 - (first + y) : first + y;
      copy_pixel(pixel_at(x, y), to + static_cast<std::size_t>(column) * kPixel);
    }
  }
}

// The weights of ITU-R BT.601, rounded to nearest.
void make_grey(std::span<std::uint8_t> rgb) noexcept {
  for (std::size_t i = 0; i + 2 < rgb.size(); i += kPixel) {
    const std::uint32_t sum = kRedOfGrey * rgb[i] + kGreenOfGrey * rgb[i + 1] + kBlueOfGrey * rgb[i + 2];
    rgb[i] = rgb[i + 1] = rgb[i + 2] = static_cast<std::uint8_t>((sum + kAllOfGrey / 2) / kAllOfGrey);
  }
}

void make_grey(Image& image) noexcept {
  const auto pixels = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height);
  make_grey(std::span(image.pixels).first(kPixel * pixels));
}

void turn(const Mask& from, int orientation, Mask& to) {
  const bool swaps = swaps_axes(orientation);
  to.width = swaps ? from.height : from.width;
  to.height = swaps ? from.width : from.height;
  to.values.resize(from.values.size());
  std::uint8_t* out = to.values.data();
  for (std::int32_t y = 0; y < to.height; ++y) {
    for (std::int32_t x = 0; x < to.width; ++x) {
      const Box pixel = stored_box({x, y, x + 1, y + 1}, from.width, from.height, orientation);
      *out++ = from.values[static_cast<std::size_t>(pixel.top) * static_cast<std::size_t>(from.width) +
                           static_cast<std::size_t>(pixel.left)];
    }
  }
}

// Without a box: the whole image. Boxes of annotations may extend beyond the image.
Box clamp_to_image(const std::optional<Box>& box, std::int32_t width, std::int32_t height) {
  if (width > Resampling::kMaxSide || height > Resampling::kMaxSide) {
    throw SampleError("image of " + std::to_string(width) + "x" + std::to_string(height) + " pixels: a side may have " +
                      std::to_string(Resampling::kMaxSide) + " at most");
  }
  if (!box) return {0, 0, width, height};
  const auto text = [&] {
    return "box (" + std::to_string(box->left) + "," + std::to_string(box->top) + "," + std::to_string(box->right) +
           "," + std::to_string(box->bottom) + ")";
  };
  if (box->left >= box->right || box->top >= box->bottom) throw SampleError(text() + " has no area");
  const Box inside{std::max(box->left, 0), std::max(box->top, 0), std::min(box->right, width),
                   std::min(box->bottom, height)};
  if (inside.left >= inside.right || inside.top >= inside.bottom) {
    throw SampleError(text() + " lies outside the image " + std::to_string(width) + "x" + std::to_string(height));
  }
  return inside;
}

ImageSize StoredPicture::size() const noexcept {
  return swaps_axes(orientation) ? ImageSize{height, width} : ImageSize{width, height};
}

// Copies the region and rotates it. A picture that is stored as displayed is only cropped.
void StoredPicture::show(const Box& region, Image& out) const {
  Box part = stored_box(region, width, height, orientation);
  // place_rows() rotates whole rows only.
  if (orientation != 1) part = {0, part.top, width, part.bottom};
  const Box area = displayed_box(part, width, height, orientation);
  out.resize(area.width(), area.height());
  out.area = area;
  const auto row_bytes = static_cast<std::size_t>(width) * 3;
  const auto rows_from = [&](std::int32_t y) { return pixels.subspan(static_cast<std::size_t>(y) * row_bytes); };
  if (orientation == 1) {
    const auto left = static_cast<std::size_t>(part.left) * 3;
    const auto wanted = static_cast<std::size_t>(part.width()) * 3;
    for (std::int32_t y = 0; y < part.height(); ++y) {
      std::ranges::copy(rows_from(part.top + y).subspan(left, wanted), out.row(y));
    }
    return;
  }
  for (std::int32_t y = 0; y < part.height(); y += kRowsAtOnce) {
    const std::int32_t rows = std::min(kRowsAtOnce, part.height() - y);
    place_rows(rows_from(part.top + y), y, rows, width, part.height(), orientation, out);
  }
}

// Pixels as they are in a record: interleaved or planar, RGB or BGR, or grey, which becomes R = G =
// B.
void decode_raw(std::span<const std::byte> bytes, const Sample& sample, Image& out) {
  const auto [width, height, channels] = std::array{sample.width, sample.height, sample.channels};
  const auto shape = std::to_string(width) + " x " + std::to_string(height) + " x " + std::to_string(channels);
  if (width < 1 || height < 1 || (channels != 1 && channels != 3)) {
    throw SampleError("raw pixels of " + shape + " cannot be served: sides must be 1 or more, channels 1 or 3");
  }
  const auto pixels = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  if (bytes.size() / static_cast<std::size_t>(channels) != pixels ||
      bytes.size() % static_cast<std::size_t>(channels) != 0) {
    throw SampleError("raw pixels of " + shape + " need " +
                      std::to_string(pixels * static_cast<std::size_t>(channels)) + " bytes, but there are " +
                      std::to_string(bytes.size()));
  }
  out.resize(width, height);
  std::uint8_t* to = out.pixels.data();
  if (channels == 3 && !sample.planar && !sample.bgr) {
    std::memcpy(to, bytes.data(), bytes.size());
    return;
  }
  if (channels == 3) {
    // The distances from one pixel of a channel to the next, and from one channel to the next.
    const std::size_t step = sample.planar ? 1 : 3;
    const std::size_t plane = sample.planar ? pixels : 1;
    for (std::size_t i = 0; i < pixels; ++i) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const std::size_t from = sample.bgr ? 2 - channel : channel;
        *to++ = std::to_integer<std::uint8_t>(bytes[from * plane + i * step]);
      }
    }
    return;
  }
  for (const std::byte grey : bytes) {
    to[0] = to[1] = to[2] = std::to_integer<std::uint8_t>(grey);
    to += 3;
  }
}

}  // namespace forebay::make
