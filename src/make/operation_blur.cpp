// A Gaussian blur in two passes, both with the kernel that averages rows. Vertically it averages
// rows of the view; horizontally, copies of one row shifted by whole pixels. The weights are
// computed only by operations that IEEE 754 rounds correctly, so the result is the same on every
// machine.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "builtin_operations.hpp"
#include "kernels.hpp"

namespace forebay::make {
namespace {

// e^-x for x from 0 to 50: a power series of x / 1024, squared ten times.
double decay(double x) noexcept {
  const double step = x / 1024;
  double sum = 1;
  double term = 1;
  for (int i = 1; i <= 12; ++i) sum += term *= -step / i;
  for (int i = 0; i < 10; ++i) sum *= sum;
  return sum;
}

struct Weights {
  std::vector<std::int16_t> all;
  int precision;  // the weights sum to 2^precision
};

// The Gaussian at integer distances up to three sigma, with as many bits as fit. The centre takes
// what rounding leaves over. REQUIRES: sigma >= 0.1.
Weights gaussian(double sigma) {
  const auto radius = static_cast<std::size_t>(std::ceil(3 * sigma));
  std::vector<double> shares(radius + 1, 1);
  // exp(-k^2 / (2 sigma^2)). From k - 1 to k it is multiplied by ratio^(2k - 1).
  const double ratio = decay(1 / (2 * sigma * sigma));
  double factor = ratio;
  for (std::size_t k = 1; k <= radius; ++k, factor *= ratio * ratio) shares[k] = shares[k - 1] * factor;
  const double sum = 2 * std::accumulate(shares.begin(), shares.end(), 0.0) - 1;
  int precision = 14;  // RowMix takes 14 to 22
  while (precision < 22 && std::ldexp(1 / sum, precision + 1) < 32000) ++precision;
  std::vector<std::int16_t> all(2 * radius + 1);
  int rest = 1 << precision;
  for (std::size_t k = 1; k <= radius; ++k) {
    const auto weight = static_cast<std::int16_t>(std::floor(std::ldexp(shares[k] / sum, precision) + 0.5));
    all[radius - k] = all[radius + k] = weight;
    rest -= 2 * weight;
  }
  all[radius] = static_cast<std::int16_t>(rest);
  return {std::move(all), precision};
}

// The pixel at position i of a row of `count` that is mirrored at its first and last pixel,
// repeatedly if necessary.
std::size_t reflected(std::ptrdiff_t i, std::ptrdiff_t count) noexcept {
  if (count == 1) return 0;
  const std::ptrdiff_t period = 2 * (count - 1);
  const std::ptrdiff_t at = ((i % period) + period) % period;
  return static_cast<std::size_t>(std::min(at, period - at));
}

class Blur final : public Operation {
 public:
  explicit Blur(const BlurOptions& options) : options_(options), blend_(best_kernels().blend) {}

  void apply(const PixelView& view, Random& random) const override {
    if (random.uniform() >= options_.probability) return;
    const auto [weights, precision] = gaussian(random.uniform(options_.sigma[0], options_.sigma[1]));
    const auto radius = static_cast<std::ptrdiff_t>(weights.size() / 2);
    const auto bytes = static_cast<std::size_t>(view.width) * sizeof(Pixel);
    thread_local std::vector<Pixel> extended;  // a row with its mirrored margins
    thread_local std::vector<std::uint8_t> blurred;
    thread_local std::vector<const std::uint8_t*> rows;
    extended.resize(static_cast<std::size_t>(view.width + 2 * radius));
    blurred.resize(bytes * static_cast<std::size_t>(view.height));
    rows.resize(weights.size());
    const RowMix mix{
        .rows = rows.data(), .coefficients = weights.data(), .taps = weights.size(), .precision = precision};
    for (std::size_t k = 0; k < rows.size(); ++k) rows[k] = reinterpret_cast<const std::uint8_t*>(&extended[k]);
    for (std::int32_t y = 0; y < view.height; ++y) {
      const std::span<const Pixel> row = view.row(y);
      std::ranges::copy(row, extended.begin() + radius);
      for (std::ptrdiff_t k = 1; k <= radius; ++k) {
        extended[static_cast<std::size_t>(radius - k)] = row[reflected(-k, view.width)];
        extended[static_cast<std::size_t>(view.width + radius + k - 1)] =
            row[reflected(view.width + k - 1, view.width)];
      }
      blend_(mix, bytes, blurred.data() + static_cast<std::size_t>(y) * bytes);
    }
    for (std::int32_t y = 0; y < view.height; ++y) {
      for (std::ptrdiff_t k = -radius; k <= radius; ++k) {
        rows[static_cast<std::size_t>(radius + k)] = blurred.data() + reflected(y + k, view.height) * bytes;
      }
      blend_(mix, bytes, reinterpret_cast<std::uint8_t*>(view.row(y).data()));
    }
  }
  [[nodiscard]] bool keeps_places() const noexcept override { return true; }

 private:
  BlurOptions options_;
  decltype(Kernels::blend) blend_;
};

}  // namespace

std::unique_ptr<const Operation> operations::blur(const TransformOptions& options) {
  const auto& [probability, sigma] = options.blur;
  if (!(probability >= 0 && probability <= 1)) throw ConfigError("blur.probability must be 0 to 1");
  if (!(sigma[0] >= 0.1 && sigma[0] <= sigma[1] && sigma[1] <= 64)) {
    throw ConfigError("blur.sigma must be [low, high] with 0.1 <= low <= high <= 64");
  }
  return std::make_unique<Blur>(options.blur);
}

}  // namespace forebay::make
