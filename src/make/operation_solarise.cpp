#include <cstdint>
#include <memory>

#include <forebay/error.hpp>

#include "builtin_operations.hpp"

namespace forebay::make {
namespace {

class Solarise final : public Operation {
 public:
  explicit Solarise(const SolariseOptions& options) : options_(options) {}

  void apply(const PixelView& view, Random& random) const override {
    if (random.uniform() >= options_.probability) return;
    const auto solarised = [this](std::uint8_t value) {
      return value < options_.threshold ? value : static_cast<std::uint8_t>(255 - value);
    };
    for (Pixel& pixel : view.pixels) {
      pixel = {.red = solarised(pixel.red), .green = solarised(pixel.green), .blue = solarised(pixel.blue)};
    }
  }
  [[nodiscard]] bool keeps_places() const noexcept override { return true; }

 private:
  SolariseOptions options_;
};

}  // namespace

std::unique_ptr<const Operation> operations::solarise(const TransformOptions& options) {
  const auto& [probability, threshold] = options.solarise;
  if (!(probability >= 0 && probability <= 1)) throw ConfigError("solarise.probability must be 0 to 1");
  if (threshold < 0 || threshold > 255) throw ConfigError("solarise.threshold must be 0 to 255");
  return std::make_unique<Solarise>(options.solarise);
}

}  // namespace forebay::make
