#pragma once

#include <span>
#include <string_view>

namespace forebay {

// A class of the generated dataset. Every shape still looks like itself when it is mirrored, stretched to its own
// bounding box, or turned by up to about 17 degrees.
struct Shape {
  std::string_view name;
  bool (*contains)(double x, double y);  // a point of the square [-1, 1]^2, y downwards
};

// In the order in which `--classes K` takes them.
[[nodiscard]] std::span<const Shape> shapes() noexcept;

}  // namespace forebay
