#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <forebay/view.hpp>

#include "held_jpeg.hpp"
#include "image.hpp"
#include "jpeg/coefficients.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg/pixel_stage.hpp"
#include "record_kernels.hpp"

namespace forebay {

// The coefficients in a place that JpegHolder wrote. One belongs to one thread.
class HeldCoefficients final : public CoefficientSource {
 public:
  // `records` must outlive it; all of them give the same coefficients.
  explicit HeldCoefficients(const RecordKernels& records = supported_record_kernels().front()) noexcept
      : records_(&records) {}

  // The place must stay, aligned to 16.
  void open(std::span<const std::byte> place) noexcept;
  [[nodiscard]] const HeldJpeg& image() const noexcept { return held_; }

  // As CoefficientSource says; always true. REQUIRES: open(); what `row` has room for is here
  [[nodiscard]] bool read(std::int32_t mcu_row, CoefficientRow& row) override;

 private:
  const RecordKernels* records_;
  HeldJpeg held_;
  const std::uint8_t* place_ = nullptr;
};

// Decodes parts of images whose coefficients are held, on the host. One belongs to one thread; its memory is reused
// from image to image.
class HeldDecoder {
 public:
  // `kernels` must outlive it; all of them give the same bytes.
  explicit HeldDecoder(const PixelKernels& kernels) noexcept : stage_(kernels) {}

  // Decodes a region of the sample's part, to pixels equal to those of JpegDecoder's decode() of the file. REQUIRES:
  // the place is as JpegHolder left it, whose header and records are not checked; the region within the part, not empty
  void decode(std::span<const std::byte> place, const Box& region, Image& out);

 private:
  HeldCoefficients coefficients_;
  PixelStage stage_;
  std::vector<std::uint8_t> strip_;  // rows that wait to be turned
};

// What HeldDecoder decodes, said plainly: the functions that devices are compiled from, called for one pixel after the
// other. `out` gets rows of expanded_row_bytes(region.width()), and 16 bytes more. For the twin; slow, any thread may
// call.
// REQUIRES: as HeldDecoder::decode()
void expand_plainly(std::span<const std::byte> place, const Box& region, std::vector<std::uint8_t>& out);

}  // namespace forebay
