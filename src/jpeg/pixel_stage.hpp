#pragma once

#include <cstdint>
#include <memory>

#include <forebay/view.hpp>

#include "coefficients.hpp"

namespace forebay {

// Where rows of pixels go.
class RgbRows {
 public:
  RgbRows() = default;
  RgbRows(const RgbRows&) = delete;
  RgbRows& operator=(const RgbRows&) = delete;
  virtual ~RgbRows() = default;

  // Where to write row `y` of the region, 0 its first one: 3 bytes for each of its pixels. Rows are asked for once
  // each, from the top; one is complete when the next one is asked for, or decode() returns.
  virtual std::uint8_t* row(std::int32_t y) = 0;
};

// Computes pixels from the coefficients of sequential JPEG files, a row of MCUs at a time, equal to those of
// libjpeg-turbo's full decode: accurate integer DCT, fancy upsampling, grey replicated to R = G = B.
//
// One stage belongs to one thread; its memory is reused from image to image.
class PixelStage {
 public:
  enum class Colours : std::uint8_t { all, luma };  // luma: R = G = B = the first component

  PixelStage();
  ~PixelStage();
  PixelStage(PixelStage&&) noexcept;
  PixelStage& operator=(PixelStage&&) noexcept;

  // Whether images of this frame are decoded here; false for quantisers too large for 16-bit arithmetic, for samplings
  // that libjpeg refuses (3 and 2 across, for example), and for luma of JpegColour::rgb. Any thread may call.
  [[nodiscard]] static bool serves(const JpegFrame& frame, Colours colours) noexcept;

  // The MCUs of which decode() needs coefficients for these pixels. Any thread may call.
  // REQUIRES: the region within the image, not empty
  [[nodiscard]] static McuRegion needed(const JpegFrame& frame, const Box& region, Colours colours) noexcept;

  // Decodes `region` of the stored image: reads the rows of needed() from `source`, from the top. False, with some of
  // the rows written, when coefficients are so large that libjpeg's variants for different processors may disagree;
  // such a file is libjpeg's. Lets through what `source` and `rows` throw.
  // REQUIRES: serves(frame, colours); the region within the image, not empty
  [[nodiscard]] bool decode(const JpegFrame& frame, const Box& region, Colours colours, CoefficientSource& source,
                            RgbRows& rows);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
