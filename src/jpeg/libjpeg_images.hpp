#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coefficients.hpp"

// Encodes and decodes images in memory with the linked libjpeg-turbo, as references for the pixel
// stage. The functions may be called on any thread; a LibjpegCoefficients belongs to one.
namespace forebay::jpeg {

// Describes an image of noise.
struct NoiseImage {
  std::int32_t width = 1;
  std::int32_t height = 1;
  std::int32_t h = 1;  // sampling factors of the first component
  std::int32_t v = 1;
  bool grey = false;
  int quality = 75;
};

// All coefficients of a file.
class LibjpegCoefficients final : public CoefficientSource {
 public:
  // Returns false if libjpeg refuses the file, or for colours that JpegColour lacks; then nothing
  // else may be called.
  [[nodiscard]] bool open(std::span<const std::byte> file);

  [[nodiscard]] const JpegFrame& frame() const noexcept { return frame_; }
  [[nodiscard]] bool read(std::int32_t mcu_row, CoefficientRow& row) override;

 private:
  struct Plane {
    std::vector<std::int16_t> blocks;  // in natural order, row by row
    std::int32_t across = 0;
    std::int32_t down = 0;
  };

  JpegFrame frame_;
  std::array<Plane, JpegFrame::kMostComponents> planes_;
};

// The encoded file; empty if libjpeg fails.
[[nodiscard]] std::vector<std::byte> encoded_noise(const NoiseImage& image);

// All pixels of a file: RGB, or one byte each with `luma`; empty if libjpeg fails.
[[nodiscard]] std::vector<std::uint8_t> decoded_by_libjpeg(std::span<const std::byte> file, bool luma);

}  // namespace forebay::jpeg
