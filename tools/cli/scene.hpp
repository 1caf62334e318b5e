#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>

#include "drawing.hpp"

namespace forebay::cli {

// A class of the generated dataset. Every shape is still recognisable when it is mirrored, stretched to its own
// bounding box, or turned by up to about 17 degrees.
struct DrawnShape {
  std::string_view name;
  bool (*contains)(double x, double y);  // a point of the square [-1, 1]^2, y downwards
};

// In the order in which `--classes K` takes them.
[[nodiscard]] std::span<const DrawnShape> shapes() noexcept;

// The colour of a shape's objects under Colours::by_class. The first few colours are far apart;
// with all shapes, neighbours are similar.
[[nodiscard]] Colour colour_of(std::size_t shape) noexcept;

// A painted shape and the smallest box around the pixels that are mostly covered by it.
struct PaintedObject {
  std::size_t shape = 0;  // index into shapes()
  Box box;
};

struct Scene {
  RgbImage image;
  std::vector<PaintedObject> objects;
  std::vector<std::uint8_t> mask;  // of each pixel: 1 + the shape that mostly covers it, or 0
};

enum class Colours : std::uint8_t {
  any,       // any colour that contrasts with the background: only the form identifies a shape
  by_class,  // close to colour_of(shape), so that even a model with a few hundred parameters can learn
};

// The settings common to all pictures of a dataset.
struct ScenePlan {
  int width = 0;
  int height = 0;
  bool close_up = false;  // objects nearly fill their regions
  Colours colours = Colours::any;
};

// The smallest side of a picture, in pixels, in which a shape can still be recognised.
constexpr int kSmallestSide = 24;

// How many objects fit into a picture of this size; at least one from kSmallestSide on.
[[nodiscard]] std::size_t most_objects(int width, int height) noexcept;

// Paints one object of each given shape on a background, with separate boxes; the same picture for the same arguments
// on every machine. REQUIRES: 1 <= chosen.size() <= most_objects(plan.width, plan.height).
[[nodiscard]] Scene paint_scene(const ScenePlan& plan, std::span<const std::size_t> chosen, std::uint64_t key);

}  // namespace forebay::cli
