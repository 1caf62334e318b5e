// The arithmetic of views along each axis: which stretch of the image a view shows, and which
// pixels its resampling reads. central_axes() reproduces what torchvision's Resize and CenterCrop
// do one after the other (resize the shorter side to a whole number, then cut the middle), without
// resizing what is cut off.

#include "view_axes.hpp"

#include <algorithm>
#include <cmath>

#include "resample.hpp"

namespace forebay::make {
namespace {

struct Stretch {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

// The stretch in whole pixels, at least one, for annotations and records; resampling itself goes by
// the exact ends.
Stretch shown(const ViewAxis& axis) noexcept {
  const auto nearest = [&](std::int32_t at) { return static_cast<std::int32_t>(std::floor(axis.in_image(at) + 0.5)); };
  const Stretch found{nearest(0), nearest(axis.count)};
  if (found.begin < found.end) return found;
  const auto only = static_cast<std::int32_t>(axis.in_image(0));
  return {only, only + 1};
}

// From the first pixel of the first window to the last one of the last.
Stretch pixels(const ViewAxis& axis) noexcept {
  const ResamplingAxis whole = resampling_axis(axis.in, axis.out);
  const TriangleWindow last(whole, axis.from + axis.count - 1);
  return {axis.origin + TriangleWindow(whole, axis.from).first(), axis.origin + last.first() + last.count()};
}

// Of the middle as Python rounds it: halves to even.
std::int32_t middle(std::int32_t whole, std::int32_t part) noexcept {
  const std::int32_t twice = whole - part;
  return twice / 2 + (twice % 4 == 3 ? 1 : 0);
}

}  // namespace

ViewAxes axes_of(const Box& region, std::int32_t width, std::int32_t height) noexcept {
  return {{.origin = region.left, .in = region.width(), .out = width, .from = 0, .count = width},
          {.origin = region.top, .in = region.height(), .out = height, .from = 0, .count = height}};
}

// The side that limits becomes size / center_fraction; the other follows in whole pixels, rounded
// down as torchvision does. Where that exceeds what a resampling can do, the region is cut out
// first and then resized.
ViewAxes central_axes(const Box& box, std::int32_t width, std::int32_t height, double fraction) noexcept {
  const std::int64_t in_width = box.width();
  const std::int64_t in_height = box.height();
  const bool by_width = in_width * height <= in_height * width;
  const double limiting = std::floor((by_width ? width : height) / fraction + 0.5);
  if (limiting > Resampling::kMaxSide) return axes_of(central_region(box, width, height, fraction), width, height);
  const auto side = static_cast<std::int64_t>(limiting);
  const std::int64_t out_width = by_width ? side : side * in_width / in_height;
  const std::int64_t out_height = by_width ? side * in_height / in_width : side;
  if (std::max(out_width, out_height) > Resampling::kMaxSide) {
    return axes_of(central_region(box, width, height, fraction), width, height);
  }
  ViewAxes axes = axes_of(box, static_cast<std::int32_t>(out_width), static_cast<std::int32_t>(out_height));
  axes.across.from = middle(axes.across.out, width);
  axes.across.count = width;
  axes.down.from = middle(axes.down.out, height);
  axes.down.count = height;
  return axes;
}

Box shown_region(const ViewAxes& axes) noexcept {
  const Stretch across = shown(axes.across);
  const Stretch down = shown(axes.down);
  return {across.begin, down.begin, across.end, down.end};
}

Box pixels_of(const ViewAxes& axes) noexcept {
  const Stretch across = pixels(axes.across);
  const Stretch down = pixels(axes.down);
  return {across.begin, down.begin, across.end, down.end};
}

ResamplingAxis resampling_axis(const ViewAxis& axis, std::int32_t first, std::int32_t end) noexcept {
  return part_of(resampling_axis(axis.in, axis.out), first - axis.origin, end - first, axis.from, axis.count);
}

void begin_exactly(Resizer& resizer, const Image& image, const ViewAxes& axes, const Box& pixels, bool mirror) {
  resizer.begin(image, image.place_of(pixels), resampling_axis(axes.across, pixels.left, pixels.right),
                resampling_axis(axes.down, pixels.top, pixels.bottom), mirror);
}

}  // namespace forebay::make
