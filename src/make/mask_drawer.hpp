#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/drawn_mask.hpp"
#include "image.hpp"

namespace forebay::make {

// Draws masks stored as shapes (data/drawn_mask.hpp), pixel for pixel like pycocotools. Belongs to one thread and is
// reused from mask to mask.
class MaskDrawer {
 public:
  // Draws the mask. Throws SampleError for damaged bytes, and for more than options.max_pixels
  // pixels. REQUIRES: is_drawn_mask(bytes).
  void draw(std::span<const std::byte> bytes, const ImageOptions& options, Mask& out);

 private:
  // Follows the outline of shape_ at five times the resolution and records in turns_ where it
  // crosses the middle of a pixel column. Going down that column, each crossing switches between
  // outside and inside.
  void follow_outline(const Mask& mask);
  void follow_edge(std::size_t from, std::size_t to, const Mask& mask);
  void visit(std::int32_t x, std::int32_t y, const Mask& mask);
  void draw_polygon(std::uint8_t value, Mask& out);
  void draw_runs(std::uint8_t value, Mask& out) const;

  data::MaskShape shape_;
  std::vector<std::uint64_t> turns_;  // pixel numbers, counted down one column after the other
  // The last visited point of the outline.
  std::int32_t x_ = 0;
  std::int32_t y_ = 0;
};

}  // namespace forebay::make
