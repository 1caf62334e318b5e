#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <forebay/view.hpp>

#include "held_jpeg.hpp"
#include "jpeg/coefficients.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "record_kernels.hpp"

namespace forebay {

// What may be held in the place of a canvas.
struct HoldLimits {
  std::int32_t width = 0;    // of a sample's part, pixels
  std::int32_t height = 0;   // likewise
  std::size_t expanded = 0;  // bytes: of its pixels, and of the samples that they are made of
};

// What is to be held, and where.
struct HoldRequest {
  Box region;               // of the image as displayed: the sample's part
  bool checks_all = false;  // of the file, so that damage anywhere is found
  HoldLimits limits;
  std::span<std::byte> place;  // aligned to 16
};

// Writes coefficients to the places of canvases (held_jpeg.hpp). One belongs to one thread; its memory is reused from
// image to image.
class JpegHolder {
 public:
  // Both must outlive it; all of them give the same results.
  explicit JpegHolder(const PixelKernels& kernels,
                      const RecordKernels& records = supported_record_kernels().front()) noexcept
      : kernels_(&kernels), records_(&records) {}

  // Holds what the pixels of the region need; reads from `source` as PixelStage::decode() does. False, with anything in
  // the place, when that is too much for it or the limits; when there are coefficients for which PixelStage would
  // not decode the image, or no JPEG encoder makes them (a first one outside -2048..2047); and when the source says so.
  // Lets through what `source` throws. What is held depends on the coefficients and the request only.
  // REQUIRES: PixelStage::serves(frame, Colours::all); the region within the image, not empty
  [[nodiscard]] bool hold(const JpegFrame& frame, int orientation, CoefficientSource& source,
                          const HoldRequest& request);

 private:
  // Writes the records of a row of blocks behind `end_`. False: they do not fit, or must not be held.
  [[nodiscard]] bool hold_row(std::size_t component, std::size_t row_of_mcu, std::int32_t row);
  // Whether PixelKernels::transform transforms the row; there is nothing in it afterwards.
  [[nodiscard]] bool transforms(std::size_t component, std::size_t row_of_mcu);

  const PixelKernels* kernels_;
  const RecordKernels* records_;
  HeldJpeg held_;
  std::span<std::byte> place_;
  std::size_t end_ = 0;
  CoefficientRow row_;
  std::vector<std::uint8_t> samples_;
};

}  // namespace forebay
