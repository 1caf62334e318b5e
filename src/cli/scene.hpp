#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <forebay/dataset.hpp>

#include "drawing.hpp"

namespace forebay {

// A painted shape and the smallest box around the pixels that are mostly covered by it.
struct PaintedObject {
  std::size_t shape = 0;  // index into shapes()
  Box box;
};

struct Scene {
  RgbImage image;
  std::vector<PaintedObject> objects;
};

// The smallest side of a picture, in pixels: a shape in it can still be recognised.
constexpr int kSmallestSide = 24;

// Objects that a picture of this size has room for; at least one from kSmallestSide on.
[[nodiscard]] std::size_t most_objects(int width, int height) noexcept;

// Paints one object of each given shape on a background, boxes apart from each other; the same picture for the same
// arguments on every machine. `close_up`: the objects fill their share of the picture nearly.
// REQUIRES: 1 <= chosen.size() <= most_objects(width, height).
[[nodiscard]] Scene paint_scene(int width, int height, std::span<const std::size_t> chosen, bool close_up,
                                std::uint64_t key);

}  // namespace forebay
