#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pack_coder.hpp"

// A mask that an index holds as shapes, which are drawn when a sample is made: polygons and runs of pixels, as COCO
// has them. Its bytes are a signature, width and height, and for each object its value and the bytes of its shapes.
namespace forebay::data {

// The signature, which no image file begins with.
[[nodiscard]] std::span<const std::byte> drawn_mask_signature() noexcept;
[[nodiscard]] bool is_drawn_mask(std::span<const std::byte> bytes) noexcept;

// An object is the union of its shapes.
struct MaskShape {
  enum class Kind : std::uint8_t { polygon, runs };
  // Polygons: corners in fifths of a pixel, which is as fine as pycocotools sees them. Their amount is limited, so that
  // no outline takes long to follow.
  static constexpr std::int32_t kFine = 5;
  static constexpr std::int32_t kFarthest = 1 << 20;
  static constexpr std::int64_t kLongest = std::int64_t{1} << 26U;

  Kind kind = Kind::polygon;
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> y;
  // Runs: how many pixels are outside, inside, outside ..., down one column after the other; of an image of this size.
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::vector<std::uint32_t> runs;

  // The steps of a fifth of a pixel along the outline. REQUIRES: as many x as y, none beyond kFarthest.
  [[nodiscard]] std::int64_t outline() const noexcept;
};

template <typename Coder, typename Shape>
void code_shape(Coder& coder, Shape& shape) {
  coder(shape.kind);
  if (shape.kind == MaskShape::Kind::polygon) {
    coder(shape.x, shape.y);
  } else {
    coder(shape.width, shape.height, shape.runs);
  }
}

// Makes the bytes of one mask. Later objects cover earlier ones.
class MaskDrawing {
 public:
  MaskDrawing(std::int32_t width, std::int32_t height);
  // `shapes`: code_shape() of each. The value of a pixel of the object.
  void add(std::uint8_t value, std::span<const std::byte> shapes);
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace forebay::data
