#include "region.hpp"

#include <algorithm>
#include <string>

#include <forebay/error.hpp>

#include "resample.hpp"

namespace forebay {

Box clamp_to_image(const std::optional<Box>& box, std::int32_t width, std::int32_t height) {
  if (width > Resampling::kMaxSide || height > Resampling::kMaxSide) {
    throw SampleError("image of " + std::to_string(width) + "x" + std::to_string(height) + " pixels: a side may have " +
                      std::to_string(Resampling::kMaxSide) + " at most");
  }
  if (!box) return {0, 0, width, height};
  const auto text = [&] {
    return "box (" + std::to_string(box->left) + "," + std::to_string(box->top) + "," + std::to_string(box->right) +
           "," + std::to_string(box->bottom) + ")";
  };
  if (box->left >= box->right || box->top >= box->bottom) throw SampleError(text() + " has no area");
  const Box inside{std::max(box->left, 0), std::max(box->top, 0), std::min(box->right, width),
                   std::min(box->bottom, height)};
  if (inside.left >= inside.right || inside.top >= inside.bottom) {
    throw SampleError(text() + " lies outside the image " + std::to_string(width) + "x" + std::to_string(height));
  }
  return inside;
}

}  // namespace forebay
