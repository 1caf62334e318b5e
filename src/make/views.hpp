#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <forebay/dataset.hpp>
#include <forebay/random.hpp>

#include "base/device_function.hpp"

// Chooses the part of an image that a sample shows. Host and device share these functions, so they
// use only operations that IEEE 754 rounds correctly, and the compiler must not fuse a
// multiplication with an addition (-ffp-contract=off, -fmad=false). All are pure; any thread may
// call.
namespace forebay::make {

// Keeps the random numbers of augmentation distinct from others of the same seed, epoch and
// position.
constexpr std::uint64_t kAugmentation = 0x61756d656e74;

// The limits of a random region.
struct RegionRule {
  static constexpr std::size_t kRatioBits = 32;

  std::array<double, 2> scale{1, 1};           // share of the box's area, uniform
  std::array<double, 2> ratio{1, 1};           // width / height, log-uniform
  std::array<double, kRatioBits> ratio_roots;  // (ratio[1] / ratio[0]) ^ (1/2, 1/4, 1/8, ...)
};

// REQUIRES: 0 < scale[0] <= scale[1] and 0 < ratio[0] <= ratio[1].
[[nodiscard]] inline RegionRule region_rule(std::array<double, 2> scale, std::array<double, 2> ratio) noexcept {
  RegionRule rule{scale, ratio, {}};
  double root = ratio[1] / ratio[0];
  for (double& r : rule.ratio_roots) r = root = std::sqrt(root);
  return rule;
}

// A width x height region in the middle of `box`.
[[nodiscard]] FOREBAY_HOST_DEVICE inline Box centred_region(const Box& box, std::int32_t width,
                                                            std::int32_t height) noexcept {
  const auto left = box.left + (box.width() - width) / 2;
  const auto top = box.top + (box.height() - height) / 2;
  return {left, top, left + width, top + height};
}

// Rounds a side to the nearest integer within [1, most].
[[nodiscard]] FOREBAY_HOST_DEVICE inline std::int32_t whole_side(double side, std::int32_t most) noexcept {
  const double nearest = std::floor(side + 0.5);
  if (nearest < 1) return 1;
  return nearest > most ? most : static_cast<std::int32_t>(nearest);
}

// The largest region inside `box`, centred, with the aspect ratio out_width : out_height, and its
// sides then scaled by `fraction`; in whole pixels, at least one wide and high.
[[nodiscard]] FOREBAY_HOST_DEVICE inline Box central_region(const Box& box, std::int64_t out_width,
                                                            std::int64_t out_height, double fraction) noexcept {
  const double ratio = static_cast<double>(out_width) / static_cast<double>(out_height);
  const double by_height = box.height() * ratio;
  const double by_width = box.width() / ratio;
  const double width = by_height < box.width() ? by_height : box.width();
  const double height = by_width < box.height() ? by_width : box.height();
  return centred_region(box, whole_side(width * fraction, box.width()), whole_side(height * fraction, box.height()));
}

// ratio[0] * (ratio[1] / ratio[0]) ^ u, where u has kRatioBits random bits. Computed without exp
// and log, whose last digit depends on the library.
[[nodiscard]] FOREBAY_HOST_DEVICE inline double draw_ratio(const RegionRule& rule, Random& random) noexcept {
  const std::uint64_t u = random.bits();
  double ratio = rule.ratio[0];
  for (std::size_t i = 0; i < RegionRule::kRatioBits; ++i) {
    if ((u >> (63 - i) & 1U) != 0) ratio *= rule.ratio_roots[i];
  }
  return ratio;
}

// The largest central region whose ratio is permitted.
[[nodiscard]] FOREBAY_HOST_DEVICE inline Box largest_region(const RegionRule& rule, const Box& box) noexcept {
  const double ratio = static_cast<double>(box.width()) / box.height();
  if (ratio < rule.ratio[0]) {
    return centred_region(box, box.width(), whole_side(box.width() / rule.ratio[0], box.height()));
  }
  if (ratio > rule.ratio[1]) {
    return centred_region(box, whole_side(box.height() * rule.ratio[1], box.width()), box.height());
  }
  return box;
}

// A random region drawn like torchvision's RandomResizedCrop: up to ten tries of an area uniform in
// `scale` and a ratio log-uniform in `ratio`, placed uniformly; if none fits, the largest central
// region. In whole pixels, at least one wide and high, always inside the box.
[[nodiscard]] FOREBAY_HOST_DEVICE inline Box draw_region(const RegionRule& rule, const Box& box,
                                                         Random& random) noexcept {
  constexpr int kTries = 10;
  const double area = static_cast<double>(box.width()) * box.height();
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double wanted = area * random.uniform(rule.scale[0], rule.scale[1]);
    const double ratio = draw_ratio(rule, random);
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
  return largest_region(rule, box);
}

// The part of its image that a sample shows.
struct ImageView {
  Box region;  // in pixels of the whole image as displayed
  bool mirror = false;
};

// How views are chosen.
struct ViewRule {
  enum class Kind : std::uint8_t { whole, center, random };

  Kind kind = Kind::random;
  std::int32_t width = 0;  // size of the result
  std::int32_t height = 0;
  double center_fraction = 1;
  double mirror = 0;  // probability
  RegionRule random;
};

// Chooses a view within `box`; the same key gives the same view.
[[nodiscard]] FOREBAY_HOST_DEVICE inline ImageView choose_view(const ViewRule& rule, const Box& box,
                                                               std::uint64_t key) noexcept {
  Random random(key);
  const bool mirror = random.uniform() < rule.mirror;
  switch (rule.kind) {
    case ViewRule::Kind::whole: break;
    case ViewRule::Kind::center: return {central_region(box, rule.width, rule.height, rule.center_fraction), mirror};
    case ViewRule::Kind::random: return {draw_region(rule.random, box, random), mirror};
  }
  return {box, mirror};
}

// The view of one serving of a sample that is stored as a canvas of `box`.
[[nodiscard]] FOREBAY_HOST_DEVICE inline ImageView serving_view(const ViewRule& rule, std::uint64_t seed,
                                                                const Box& box, std::uint64_t epoch,
                                                                std::uint64_t position,
                                                                std::uint64_t use_index) noexcept {
  return choose_view(rule, box, key64(seed, kAugmentation, epoch, position, use_index));
}

}  // namespace forebay::make
