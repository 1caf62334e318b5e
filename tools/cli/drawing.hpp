#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/random.hpp>

namespace forebay::cli {

using Colour = std::array<float, 3>;  // red, green, blue; 0 to 255, clamped only at the end

// A picture being painted, in floats, so that layers do not accumulate rounding errors.
class Drawing {
 public:
  Drawing(int width, int height)
      : width_(width), height_(height), pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}

  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] int height() const noexcept { return height_; }
  // REQUIRES: 0 <= x < width(), 0 <= y < height().
  [[nodiscard]] Colour& at(int x, int y) noexcept {
    return pixels_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)];
  }
  [[nodiscard]] std::vector<Colour>& pixels() noexcept { return pixels_; }

  // alpha 0 keeps the pixel, 1 replaces it.
  void blend(int x, int y, const Colour& colour, float alpha) noexcept {
    Colour& pixel = at(x, y);
    for (std::size_t c = 0; c < pixel.size(); ++c) pixel[c] += (colour[c] - pixel[c]) * alpha;
  }

 private:
  int width_;
  int height_;
  std::vector<Colour> pixels_;
};

// Adds smooth random values to a plane of width * height: value noise on a lattice of `cell` pixels, from -amplitude
// to amplitude.
void add_noise(std::vector<float>& plane, int width, int height, int cell, float amplitude, Random& random);

// Paints something like an out-of-focus photograph: large areas of colour, texture at every scale, clutter.
void paint_background(Drawing& drawing, Random& random);

// Adds the grain of a camera sensor to everything painted so far.
void add_grain(Drawing& drawing, Random& random);

// A finished picture: red, green, blue bytes, rows from the top.
struct RgbImage {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> bytes;
};

// Encodes a baseline JPEG file, 4:2:0, with the integer DCT: the same pixels give the same bytes.
// quality: 1 to 100. Throws Error if libjpeg fails.
[[nodiscard]] std::vector<std::byte> encode_jpeg(const RgbImage& image, int quality);

}  // namespace forebay::cli
