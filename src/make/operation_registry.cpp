#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/operation.hpp>

#include "operation_chain.hpp"

namespace forebay {
namespace {

// As torchvision's RandomErasing.
constexpr std::array<double, 2> kErasedRatio{0.3, 3.3};

std::unique_ptr<const Operation> make_colour(const TransformOptions& options) {
  const ColourOptions& colour = options.colour;
  for (const double share : {colour.brightness, colour.contrast, colour.saturation, colour.grey}) {
    if (!(share >= 0 && share <= 1)) throw ConfigError("colour: factors and the probability of grey must be 0 to 1");
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

std::uint32_t nearest_pixel(const std::array<double, 3>& colour) noexcept {
  std::uint32_t pixel = 0;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double value = std::clamp(std::floor(colour[channel] + 0.5), 0.0, 255.0);
    pixel |= static_cast<std::uint32_t>(value) << (8 * channel);
  }
  return pixel;
}

std::unique_ptr<const Operation> make_erase(const TransformOptions& options) {
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

}  // namespace

OperationRegistry OperationRegistry::builtin() {
  OperationRegistry registry;
  registry.add("colour", make_colour);
  registry.add("erase", make_erase);
  return registry;
}

void OperationRegistry::add(std::string name, OperationFactory factory) {
  factories_.insert_or_assign(std::move(name), std::move(factory));
}

std::vector<std::string> OperationRegistry::names() const {
  std::vector<std::string> names;
  names.reserve(factories_.size());
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

std::unique_ptr<const Operation> OperationRegistry::make(std::string_view name, const TransformOptions& options) const {
  const auto found = factories_.find(name);
  if (found != factories_.end()) return found->second(options);
  std::string known;
  for (const auto& [each, factory] : factories_) known += (known.empty() ? "" : ", ") + each;
  throw ConfigError("transform.operations: there is no operation \"" + std::string(name) +
                    "\"; known operations: " + known);
}

}  // namespace forebay
