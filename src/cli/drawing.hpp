#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forebay {

using Colour = std::array<float, 3>;  // red, green, blue; 0 to 255, may overshoot until the end

// A picture being painted: floats, so that layers add up without rounding.
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

// Red, green, blue bytes, rows from the top; what JPEG takes.
struct RgbImage {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> bytes;
};

}  // namespace forebay
