#include <forebay/error.hpp>

#include "builtin_operations.hpp"
#include "operation_chain.hpp"

namespace forebay::make {

std::unique_ptr<const Operation> operations::colour(const TransformOptions& options) {
  const ColourOptions& colour = options.colour;
  for (const double share : {colour.brightness, colour.contrast, colour.saturation, colour.grey}) {
    if (!(share >= 0 && share <= 1)) {
      throw ConfigError("colour: brightness, contrast, saturation and grey must be 0 to 1");
    }
  }
  if (!(colour.hue >= 0 && colour.hue <= 0.5)) throw ConfigError("colour.hue must be 0 to 0.5 turns");
  PixelRule rule;
  rule.has_colour = true;
  rule.colour = {.brightness = colour.brightness,
                 .contrast = colour.contrast,
                 .saturation = colour.saturation,
                 .hue = colour.hue,
                 .grey = colour.grey};
  return std::make_unique<PixelOperation>(rule);
}

}  // namespace forebay::make
