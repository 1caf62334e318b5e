#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <forebay/error.hpp>

#include "builtin_operations.hpp"
#include "operation_chain.hpp"

namespace forebay::make {
namespace {

// Width / height, as in torchvision's RandomErasing.
constexpr std::array<double, 2> kErasedRatio{0.3, 3.3};

// The mean colour becomes 0 when normalised, so an erased region carries no information.
std::uint32_t nearest_pixel(const std::array<double, 3>& colour) noexcept {
  std::uint32_t pixel = 0;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double value = std::clamp(std::floor(colour[channel] + 0.5), 0.0, 255.0);
    pixel |= static_cast<std::uint32_t>(value) << (8 * channel);
  }
  return pixel;
}

}  // namespace

std::unique_ptr<const Operation> operations::erase(const TransformOptions& options) {
  const EraseOptions& erase = options.erase;
  if (!(erase.probability >= 0 && erase.probability <= 1)) throw ConfigError("erase.probability must be 0 to 1");
  if (!(erase.area[0] > 0 && erase.area[0] <= erase.area[1] && erase.area[1] <= 1)) {
    throw ConfigError("erase.area must be [low, high] with 0 < low <= high <= 1");
  }
  PixelRule rule;
  rule.has_erase = true;
  rule.erase = {.probability = erase.probability,
                .region = region_rule(erase.area, kErasedRatio),
                .fill = nearest_pixel(options.mean)};
  return std::make_unique<PixelOperation>(rule);
}

}  // namespace forebay::make
