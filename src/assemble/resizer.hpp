#pragma once

#include <cstdint>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/detail/pipeline.hpp>

#include "resample.hpp"

namespace forebay {

// Resizes a region of an image, as if the region had been cut out first: rows are resampled to the new width, then
// columns to the new height, each to 8 bits, rounded to nearest. Output rows are made one at a time, so that the
// caller can convert and store each while it is in the first-level cache; the input rows that one output row needs are
// kept in a ring and none is resampled twice.
// One thread's; memory is kept from image to image and only grows.
class Resizer {
 public:
  // Prepares for row(). The image must stay until the last row is read. With `mirror` left and right are exchanged.
  // REQUIRES: region within the image and not empty, all sides <= Resampling::kMaxSide.
  void begin(const Image& image, const Box& region, std::int32_t out_width, std::int32_t out_height, bool mirror);

  // Output row y as interleaved RGB, valid until the next call. REQUIRES: y counts up from 0.
  [[nodiscard]] const std::uint8_t* row(std::int32_t y);

 private:
  void add_input_row(std::int32_t y) noexcept;
  [[nodiscard]] std::uint8_t* ring_row(std::int32_t y) noexcept;

  const Image* image_ = nullptr;
  Box region_;
  bool mirror_ = false;
  Resampling columns_;  // along a row: input columns to output columns
  Resampling rows_;
  std::int32_t next_input_ = 0;  // input rows below this one are, or were, in the ring
  std::vector<std::uint8_t> ring_;
  std::vector<const std::uint8_t*> inputs_;  // the ring rows of one output row
  std::vector<std::int32_t> sums_;           // only for more rows than a specialised loop takes
  std::vector<std::uint8_t> output_;
};

}  // namespace forebay
