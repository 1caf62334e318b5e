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

// A non-owning view of rows of RGB pixels.
struct PixelRows {
  const std::uint8_t* first = nullptr;  // the first pixel of the first row
  std::size_t row_bytes = 0;            // from one row to the next
  const std::uint8_t* end = nullptr;    // everything before it is readable

  [[nodiscard]] const std::uint8_t* row(std::int32_t y) const noexcept {
    return first + static_cast<std::size_t>(y) * row_bytes;
  }
};

// The colour of a view outside its image: red, green, blue; the fourth byte is unused.
using FillPixel = std::array<std::uint8_t, kPixelBytes>;

// Resizes a region of an image, as if it had been cut out first, in two steps that each round to
// the nearest 8-bit value. If the number of rows decreases (mixes_first()), rows are mixed first
// and then resampled to the new width; otherwise they are resampled first. So the more expensive
// step, along the row, is done for the smaller number of rows, and the result depends only on
// sizes. Output rows are made one at a time, so that the caller can convert and store each while it
// is in the first-level cache. No row is resampled twice. For one thread; memory is kept from image
// to image and only grows.
class Resizer {
 public:
  // `kernels` must outlive this; all kernels give the same bytes.
  explicit Resizer(const Kernels& kernels = best_kernels()) noexcept : kernels_(&kernels) {}

  // Prepares for row(). The pixels must stay valid until the last row is read. `mirror` exchanges left and right.
  // REQUIRES: region within the pixels and not empty, all sides <= Resampling::kMaxSide.
  void begin(const PixelRows& pixels, const Box& region, std::int32_t out_width, std::int32_t out_height, bool mirror);
  void begin(const Image& image, const Box& region, std::int32_t out_width, std::int32_t out_height, bool mirror);
  // Likewise, with axes. REQUIRES: across.in == region.width(), down.in == region.height().
  void begin(const PixelRows& pixels, const Box& region, const ResamplingAxis& across, const ResamplingAxis& down,
             bool mirror);
  void begin(const Image& image, const Box& region, const ResamplingAxis& across, const ResamplingAxis& down,
             bool mirror);

  // Called after begin(): makes output rows `width` pixels wide, with the resized region at
  // (`left`, `top`) and `fill` around it.
  void surround(std::int32_t left, std::int32_t top, std::int32_t width, const FillPixel& fill);

  // Output row y in pixels of kPixelBytes, valid until the next call. REQUIRES: y counts up from 0.
  [[nodiscard]] const std::uint8_t* row(std::int32_t y);

 private:
  [[nodiscard]] const std::uint8_t* resized_row(std::int32_t y);
  [[nodiscard]] const std::uint8_t* surrounded_row(std::int32_t y);
  [[nodiscard]] const std::uint8_t* region_row(std::int32_t y) const noexcept;
  [[nodiscard]] const std::uint8_t* mixed_then_resampled(std::int32_t y) noexcept;
  [[nodiscard]] const std::uint8_t* resampled_then_mixed(std::int32_t y) noexcept;
  // Row y of the region, resampled to the new width; valid until row y + 2 is requested.
  [[nodiscard]] const std::uint8_t* resampled_row(std::int32_t y) noexcept;

  const Kernels* kernels_;
  PixelRows pixels_;
  Box region_;
  bool mix_first_ = false;
  Columns columns_;
  Resampling rows_;
  std::vector<const std::uint8_t*> inputs_;  // the rows to be mixed
  std::vector<std::uint8_t> wide_;           // a row of the region, readable beyond its end
  std::int32_t resampled_ = 0;               // number of region rows that were resampled
  std::vector<std::uint8_t> narrow_;         // the last two of them
  std::vector<std::uint8_t> output_;
  bool is_surrounded_ = false;
  std::int32_t left_ = 0;  // position of the resized region within the rows
  std::int32_t top_ = 0;
  std::vector<FillPixel> outside_;     // a row that is all fill
  std::vector<FillPixel> surrounded_;  // a row with fill around the resized pixels
};

}  // namespace forebay::make
