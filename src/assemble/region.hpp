#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <forebay/dataset.hpp>
#include <forebay/random.hpp>

namespace forebay {

// The part of `box` that lies in a width x height image; the whole image without a box. Throws SampleError for a box
// that lies outside of it or has no area. Any thread may call.
[[nodiscard]] Box clamp_to_image(const std::optional<Box>& box, std::int32_t width, std::int32_t height);

// The largest region inside `box`, centred, with the aspect ratio out_width : out_height, its sides then scaled by
// `fraction`; whole pixels, at least one by one. Any thread may call.
[[nodiscard]] Box central_region(const Box& box, std::int64_t out_width, std::int64_t out_height,
                                 double fraction) noexcept;

// Random regions as torchvision's RandomResizedCrop draws them: up to ten tries of an area uniform in `scale` (share
// of the box's area) and a ratio width : height log-uniform in `ratio`, placed uniformly; when none fits, the largest
// central region whose ratio is within `ratio`. Whole pixels, at least one by one, always inside the box.
// The sequence of draws is the same on every machine: only operations that IEEE 754 rounds correctly are used.
// Immutable; any thread may call.
class RandomRegion {
 public:
  // REQUIRES: 0 < scale[0] <= scale[1] and 0 < ratio[0] <= ratio[1].
  RandomRegion(std::array<double, 2> scale, std::array<double, 2> ratio) noexcept;

  [[nodiscard]] Box draw(const Box& box, Random& random) const noexcept;

 private:
  static constexpr int kTries = 10;
  static constexpr std::size_t kRatioBits = 32;

  [[nodiscard]] double draw_ratio(Random& random) const noexcept;
  [[nodiscard]] Box fallback(const Box& box) const noexcept;

  std::array<double, 2> scale_;
  std::array<double, 2> ratio_;
  std::array<double, kRatioBits> roots_{};  // (ratio[1] / ratio[0]) ^ (1/2, 1/4, 1/8, ...)
};

}  // namespace forebay
