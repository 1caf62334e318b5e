#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/view.hpp>

#include "coefficients.hpp"
#include "jpeg_math.hpp"
#include "pixel_kernels.hpp"

namespace forebay::jpeg {

// Receives rows of pixels.
class RgbRows {
 public:
  RgbRows() = default;
  RgbRows(const RgbRows&) = delete;
  RgbRows& operator=(const RgbRows&) = delete;
  virtual ~RgbRows() = default;

  // Where to write row `y` of the region, counted from 0; 3 bytes per pixel. Each row is requested
  // once, from the top. It is complete when the next one is requested, or when decode() returns.
  virtual std::uint8_t* row(std::int32_t y) = 0;
};

// Computes pixels from the coefficients of sequential JPEG files, one row of MCUs at a time. They
// equal those of libjpeg-turbo's full decode: accurate integer DCT, fancy upsampling, grey
// replicated to R = G = B.
//
// A stage belongs to one thread; its memory, some rows of samples and of coefficients, is reused
// from image to image.
class PixelStage {
 public:
  enum class Colours : std::uint8_t { all, luma };  // luma: R = G = B = the first component

  explicit PixelStage(const PixelKernels& kernels) noexcept : kernels_(&kernels) {}

  // Whether images of this frame can be decoded here. False for quantisers too large for 16-bit
  // arithmetic, for sampling factors that libjpeg refuses (3 and 2 across, for example), and for
  // luma of JpegColour::rgb. Any thread may call.
  [[nodiscard]] static bool serves(const JpegFrame& frame, Colours colours) noexcept;

  // The MCUs whose coefficients decode() needs for these pixels. Any thread may call. REQUIRES:
  // serves(frame, colours); the region is within the image and not empty.
  [[nodiscard]] static McuRegion needed(const JpegFrame& frame, const Box& region, Colours colours) noexcept;

  // Decodes `region` of the stored image: reads the rows of needed() from `source`, from the top.
  // Returns false, with some rows written, if the source returns false, or if coefficients are so
  // large that libjpeg's variants for different processors may disagree; such a file must be left
  // to libjpeg. Does not catch exceptions of `source` and `rows`. REQUIRES: serves(frame, colours);
  // the region is within the image and not empty.
  [[nodiscard]] bool decode(const JpegFrame& frame, const Box& region, Colours colours, CoefficientSource& source,
                            RgbRows& rows);

 private:
  // The samples of a component in the current MCU row, preceded by the last row of the previous
  // one.
  struct Strip {
    Enlargement enlargement;
    std::uint8_t* first = nullptr;  // sample 0 of row 0, in the leftmost MCU
    std::size_t stride = 0;
    std::uint8_t* enlarged = nullptr;  // one upsampled row
    std::int32_t rows = 0;             // rows of samples per MCU row
    std::int32_t height = 0;           // height of the component
    std::size_t last_column = 0;       // of the component, from `first`; maybe beyond the strip

    [[nodiscard]] std::uint8_t* row(std::int32_t at) const noexcept {
      return first + static_cast<std::ptrdiff_t>(stride) * at;
    }
  };

  [[nodiscard]] static std::size_t wanted_components(const JpegFrame& frame, Colours colours) noexcept;

  void prepare(const JpegFrame& frame, const McuRegion& mcus, Colours colours);
  [[nodiscard]] bool transform(const JpegFrame& frame);
  void keep_last_rows() noexcept;
  // Row `y` of the image for a component, as wide as the strips; `mcu_row` is the current MCU row.
  [[nodiscard]] const std::uint8_t* enlarged_row(const Strip& strip, std::int32_t y, std::int32_t mcu_row) noexcept;

  const PixelKernels* kernels_;
  CoefficientRow coefficients_;
  std::array<Strip, JpegFrame::kMostComponents> strips_{};
  std::size_t components_ = 0;
  Box region_;
  std::size_t skipped_ = 0;  // strip pixels to the left of the region
  std::vector<std::uint8_t> samples_;
  std::vector<std::uint16_t> sums_;
};

}  // namespace forebay::jpeg
