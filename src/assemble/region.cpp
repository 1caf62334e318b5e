#include "region.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <forebay/error.hpp>

namespace forebay {
namespace {

Box centred(const Box& box, std::int32_t width, std::int32_t height) noexcept {
  const auto left = box.left + (box.width() - width) / 2;
  const auto top = box.top + (box.height() - height) / 2;
  return {left, top, left + width, top + height};
}

// The nearest whole side, within [1, most].
std::int32_t whole_side(double side, std::int32_t most) noexcept {
  return static_cast<std::int32_t>(std::clamp(std::floor(side + 0.5), 1.0, static_cast<double>(most)));
}

}  // namespace

Box clamp_to_image(const std::optional<Box>& box, std::int32_t width, std::int32_t height) {
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

Box central_region(const Box& box, std::int64_t out_width, std::int64_t out_height, double fraction) noexcept {
  const double ratio = static_cast<double>(out_width) / static_cast<double>(out_height);
  const double width = std::min(static_cast<double>(box.width()), box.height() * ratio);
  const double height = std::min(static_cast<double>(box.height()), box.width() / ratio);
  return centred(box, whole_side(width * fraction, box.width()), whole_side(height * fraction, box.height()));
}

RandomRegion::RandomRegion(std::array<double, 2> scale, std::array<double, 2> ratio) noexcept
    : scale_(scale), ratio_(ratio) {
  double root = ratio[1] / ratio[0];
  for (double& r : roots_) r = root = std::sqrt(root);
}

double RandomRegion::draw_ratio(Random& random) const noexcept {
  // ratio[0] * (ratio[1] / ratio[0]) ^ u for a u of kRatioBits random bits, without exp and log, whose last digit
  // depends on the C library.
  const std::uint64_t u = random.bits();
  double ratio = ratio_[0];
  for (std::size_t i = 0; i < kRatioBits; ++i) {
    if ((u >> (63 - i) & 1U) != 0) ratio *= roots_[i];
  }
  return ratio;
}

Box RandomRegion::draw(const Box& box, Random& random) const noexcept {
  const double area = static_cast<double>(box.width()) * box.height();
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double wanted = area * random.uniform(scale_[0], scale_[1]);
    const double ratio = draw_ratio(random);
    const double width = std::floor(std::sqrt(wanted * ratio) + 0.5);
    const double height = std::floor(std::sqrt(wanted / ratio) + 0.5);
    if (width < 1 || height < 1 || width > box.width() || height > box.height()) continue;
    const auto w = static_cast<std::int32_t>(width);
    const auto h = static_cast<std::int32_t>(height);
    const auto top =
        box.top + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(box.height() - h) + 1));
    const auto left =
        box.left + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(box.width() - w) + 1));
    return {left, top, left + w, top + h};
  }
  return fallback(box);
}

Box RandomRegion::fallback(const Box& box) const noexcept {
  const double ratio = static_cast<double>(box.width()) / box.height();
  if (ratio < ratio_[0]) return centred(box, box.width(), whole_side(box.width() / ratio_[0], box.height()));
  if (ratio > ratio_[1]) return centred(box, whole_side(box.height() * ratio_[1], box.width()), box.height());
  return box;
}

}  // namespace forebay
