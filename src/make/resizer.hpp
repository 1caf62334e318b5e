#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/dataset.hpp>

#include "image.hpp"
#include "kernels.hpp"
#include "resample.hpp"

namespace forebay::make {

// Rows of RGB pixels somewhere in memory, of which they own nothing.
struct PixelRows {
  const std::uint8_t* first = nullptr;  // pixel of the first row
  std::size_t row_bytes = 0;            // from a row to the next
  const std::uint8_t* end = nullptr;    // what lies before it may be read

  [[nodiscard]] const std::uint8_t* row(std::int32_t y) const noexcept {
    return first + static_cast<std::size_t>(y) * row_bytes;
  }
};

// What a view shows where it has no pixel of its image: red, green, blue.
using FillPixel = std::array<std::uint8_t, kPixelBytes>;

// Resizes a region of an image, as if the region had been cut out first, in two steps that each round to 8 bits, to
// nearest: where rows become fewer (mixes_first()) they are mixed first and then resampled to the new width; else they
// are resampled first. So the dearer step, along the row, is made as often as there are rows
// on the smaller side, and the result depends on sizes only. Output rows are made one at a time, so that the caller can
// convert and store each while it is in the first-level cache. None is resampled twice. One thread's; memory is kept
// from image to image and only grows.
class Resizer {
 public:
  // `kernels` must stay; all of them give the same bytes.
  explicit Resizer(const Kernels& kernels = best_kernels()) noexcept : kernels_(&kernels) {}

  // Prepares for row(). The pixels must stay until the last row is read. With `mirror` left and right are exchanged.
  // REQUIRES: region within the pixels and not empty, all sides <= Resampling::kMaxSide.
  void begin(const PixelRows& pixels, const Box& region, std::int32_t out_width, std::int32_t out_height, bool mirror);
  void begin(const Image& image, const Box& region, std::int32_t out_width, std::int32_t out_height, bool mirror);
  // The same by axes. REQUIRES: across.in == region.width(), down.in == region.height().
  void begin(const PixelRows& pixels, const Box& region, const ResamplingAxis& across, const ResamplingAxis& down,
             bool mirror);
  void begin(const Image& image, const Box& region, const ResamplingAxis& across, const ResamplingAxis& down,
             bool mirror);

  // After begin(): rows become `width` pixels wide, and what is resized lies `left` and `top` from their beginning,
  // surrounded by `fill`.
  void surround(std::int32_t left, std::int32_t top, std::int32_t width, const FillPixel& fill);

  // Output row y in pixels of kPixelBytes, valid until the next call. REQUIRES: y counts up from 0.
  [[nodiscard]] const std::uint8_t* row(std::int32_t y);

 private:
  [[nodiscard]] const std::uint8_t* resized_row(std::int32_t y);
  [[nodiscard]] const std::uint8_t* surrounded_row(std::int32_t y);
  [[nodiscard]] const std::uint8_t* region_row(std::int32_t y) const noexcept;
  [[nodiscard]] const std::uint8_t* mixed_then_resampled(std::int32_t y) noexcept;
  [[nodiscard]] const std::uint8_t* resampled_then_mixed(std::int32_t y) noexcept;
  // Region row y at the new width; it stays until row y + 2 is asked for.
  [[nodiscard]] const std::uint8_t* resampled_row(std::int32_t y) noexcept;

  const Kernels* kernels_;
  PixelRows pixels_;
  Box region_;
  bool mix_first_ = false;
  Columns columns_;
  Resampling rows_;
  std::vector<const std::uint8_t*> inputs_;  // the rows that are mixed
  std::vector<std::uint8_t> wide_;           // a row of the region, readable beyond its end
  std::int32_t resampled_ = 0;               // rows of the region below this one were resampled
  std::vector<std::uint8_t> narrow_;         // the last two of them
  std::vector<std::uint8_t> output_;
  bool is_surrounded_ = false;
  std::int32_t left_ = 0;  // of what is resized, within the rows
  std::int32_t top_ = 0;
  std::vector<FillPixel> outside_;     // a row without pixels of the image
  std::vector<FillPixel> surrounded_;  // a row with some
};

}  // namespace forebay::make
