#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/view.hpp>

#include "image.hpp"
#include "jpeg/pixel_stage.hpp"

namespace forebay::make {

// Rows of a part of the stored image, on their way to where they are displayed.
class PlacedRows final : public jpeg::RgbRows {
 public:
  PlacedRows(const Box& part, int orientation, std::vector<std::uint8_t>& strip, Image& out)
      : width_(part.width()), height_(part.height()), orientation_(orientation), strip_(strip), out_(out) {
    const auto bytes = row_bytes() * static_cast<std::size_t>(kRowsTurned);
    if (orientation_ != 1 && strip_.size() < bytes) strip_.resize(bytes);
  }

  std::uint8_t* row(std::int32_t y) override {
    if (orientation_ == 1) return out_.row(y);
    if (y == first_ + kRowsTurned) place(kRowsTurned);
    return strip_.data() + static_cast<std::size_t>(y - first_) * row_bytes();
  }

  // After the last row.
  void finish() {
    if (orientation_ != 1) place(height_ - first_);
  }

 private:
  // Rows that are turned together when the orientation is not as stored.
  static constexpr std::int32_t kRowsTurned = 16;

  [[nodiscard]] std::size_t row_bytes() const noexcept { return static_cast<std::size_t>(width_) * 3; }
  void place(std::int32_t rows) {
    place_rows(strip_, first_, rows, width_, height_, orientation_, out_);
    first_ += rows;
  }

  std::int32_t width_;
  std::int32_t height_;
  int orientation_;
  std::vector<std::uint8_t>& strip_;
  Image& out_;
  std::int32_t first_ = 0;  // row in the strip
};

}  // namespace forebay::make
