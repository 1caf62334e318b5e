#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pack_coder.hpp"

// A mask that an index stores as shapes (COCO's polygons and runs of pixels), which are drawn when a sample is made.
// Its bytes are a signature, width and height, and for each object its value and the bytes of its shapes.
namespace forebay::data {

// The signature, with which no image file begins.
[[nodiscard]] std::span<const std::byte> drawn_mask_signature() noexcept;
[[nodiscard]] bool is_drawn_mask(std::span<const std::byte> bytes) noexcept;

// An object is the union of its shapes.
struct MaskShape {
  enum class Kind : std::uint8_t { polygon, runs };
  // Polygons: corners in fifths of a pixel, the resolution of pycocotools. Coordinates are limited, so that no outline
  // takes long to trace.
  static constexpr std::int32_t kFine = 5;
  static constexpr std::int32_t kFarthest = 1 << 20;
  static constexpr std::int64_t kLongest = std::int64_t{1} << 26U;

  Kind kind = Kind::polygon;
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> y;
  // Runs: the numbers of pixels outside, inside, outside ..., column by column from the top, in an image of this size.
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::vector<std::uint32_t> runs;

  // The length of the outline in steps of a fifth of a pixel. REQUIRES: as many x as y, none beyond kFarthest.
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

// Composes the bytes of a mask. Later objects cover earlier ones.
class MaskDrawing {
 public:
  MaskDrawing(std::int32_t width, std::int32_t height);
  // Adds an object. `value`: the value of its pixels. `shapes`: code_shape() of each of its shapes.
  void add(std::uint8_t value, std::span<const std::byte> shapes);
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace forebay::data
