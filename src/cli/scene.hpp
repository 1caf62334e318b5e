#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>

#include "drawing.hpp"

namespace forebay {

// A class of the generated dataset. Every shape is still recognisable when it is mirrored, stretched to its own
// bounding box, or turned by up to about 17 degrees.
struct DrawnShape {
  std::string_view name;
  bool (*contains)(double x, double y);  // a point of the square [-1, 1]^2, y downwards
};

// In the order in which `--classes K` takes them.
[[nodiscard]] std::span<const DrawnShape> shapes() noexcept;

// A painted shape and the smallest box around the pixels that are mostly covered by it.
struct PaintedObject {
  std::size_t shape = 0;  // index into shapes()
  Box box;
};

struct Scene {
  RgbImage image;
  std::vector<PaintedObject> objects;
};

// The smallest side of a picture, in pixels, in which a shape can still be recognised.
constexpr int kSmallestSide = 24;

// Objects that a picture of this size has room for; at least one from kSmallestSide on.
[[nodiscard]] std::size_t most_objects(int width, int height) noexcept;

// Paints one object of each given shape on a background, with separate boxes; the same picture for the same arguments
// on every machine. `close_up`: the objects nearly fill their share of the picture. REQUIRES: 1 <= chosen.size() <=
// most_objects(width, height).
[[nodiscard]] Scene paint_scene(int width, int height, std::span<const std::size_t> chosen, bool close_up,
                                std::uint64_t key);

}  // namespace forebay
