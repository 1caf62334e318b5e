// The arithmetic of views along each axis: the part of the image that a view shows, and the pixels
// that its resampling reads. central_axes() reproduces torchvision's Resize followed by CenterCrop
// (resize the shorter side to an integer, then cut out the middle), without resizing what is cut
// off. CropRule does the same with both sides given, at random positions, and with a border, whose
// pixels are outside the image.
//
// Pure functions; decoder threads call them for each sample.

#include "view_axes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <forebay/error.hpp>

#include "resample.hpp"

namespace forebay::make {
namespace {

struct Stretch {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

// The stretch in whole pixels, at least one, for annotations and records; resampling uses the exact
// ends. Clamped, because a border may extend beyond the range of the type.
Stretch shown(const ViewAxis& axis) noexcept {
  constexpr double kFarthest = 1 << 30;
  const auto nearest = [&](std::int32_t at) {
    return static_cast<std::int32_t>(std::clamp(std::floor(axis.in_image(at) + 0.5), -kFarthest, kFarthest));
  };
  const Stretch found{nearest(0), nearest(axis.count)};
  if (found.begin < found.end) return found;
  const auto only = static_cast<std::int32_t>(std::clamp(axis.in_image(0), -kFarthest, kFarthest));
  return {only, only + 1};
}

// From the first pixel of the first window to the last pixel of the last.
Stretch pixels(const ViewAxis& axis) noexcept {
  const ResamplingAxis whole = resampling_axis(axis.in, axis.out);
  const TriangleWindow last(whole, axis.from + axis.end() - 1);
  return {axis.origin + TriangleWindow(whole, axis.from + axis.begin()).first(),
          axis.origin + last.first() + last.count()};
}

// The offset of a part in the middle of a whole, rounded like Python's round(): halves to even. If
// the part is larger than the whole, the offset is negative, and the padding before the whole is
// rounded down, as in torchvision's CenterCrop.
std::int32_t middle(std::int32_t whole, std::int32_t part) noexcept {
  const std::int32_t twice = whole - part;
  return twice / 2 + (twice % 4 == 3 ? 1 : 0);
}

}  // namespace

// As in torchvision, sides are rounded down, and the top is drawn before the left. A random view
// always shows some of the image, because each side of the border is shorter than the view's
// (crop_problem()).
ViewAxes CropRule::axes_of(const Box& box, Random& random) const {
  const std::int64_t shorter = std::min(box.width(), box.height());
  const auto resized = [&](std::int64_t side, std::size_t i) {
    if (resize.size() == 1) return resize[0] * side / shorter;
    return resize.empty() ? side : resize[i];
  };
  const std::int64_t across = resized(box.width(), 1);
  const std::int64_t down = resized(box.height(), 0);
  const std::int64_t across_all = across + border[0] + border[2];
  const std::int64_t down_all = down + border[1] + border[3];
  const auto refuse = [&](const std::string& why) {
    throw SampleError("it would be cut out of " + std::to_string(across_all) + "x" + std::to_string(down_all) +
                      " pixels (the image or box with transform.resize and transform.padding), which is " + why);
  };
  if (std::max(across, down) > Resampling::kMaxSide) refuse("more than can be resized");
  if (is_random && (across_all < width || down_all < height)) {
    refuse("less than " + std::to_string(width) + "x" + std::to_string(height) + ", transform.size");
  }
  ViewAxes axes = make::axes_of(box, static_cast<std::int32_t>(across), static_cast<std::int32_t>(down));
  const auto cut = [&](ViewAxis& axis, std::int64_t all, std::int64_t before, std::int32_t count) {
    const auto whole = static_cast<std::int32_t>(all);
    const std::int32_t at = is_random
                                ? static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(whole - count) + 1))
                                : middle(whole, count);
    axis.from = at - static_cast<std::int32_t>(before);
    axis.count = count;
  };
  cut(axes.down, down_all, border[1], height);
  cut(axes.across, across_all, border[0], width);
  return axes;
}

// For center without transform.resize there is no rule: the size that the image is resized to
// follows from the view's (central_axes()). Evaluation takes the middle, border included. So a crop
// that can lie in only one place, as in a chain that only pads, is the same in evaluation.
std::optional<CropRule> crop_rule(const TransformOptions& options, bool deterministic) {
  const bool is_random = options.crop == Crop::random;
  if (!is_random && (options.crop != Crop::center || options.resize.empty())) return std::nullopt;
  return CropRule{.width = static_cast<std::int32_t>(options.size[1]),
                  .height = static_cast<std::int32_t>(options.size[0]),
                  .resize = options.resize,
                  .border = border_of(options.padding),
                  .is_random = is_random && !deterministic};
}

std::array<std::int64_t, 4> border_of(const std::vector<std::int64_t>& padding) noexcept {
  std::array<std::int64_t, 4> border{};
  for (std::size_t i = 0; i < border.size() && !padding.empty(); ++i) border[i] = padding[i % padding.size()];
  return border;
}

// The image is made grey when it is decoded, before it gets a border, so the fill is converted
// here.
FillPixel fill_pixel(const std::vector<std::int64_t>& fill, std::int64_t channels) noexcept {
  FillPixel pixel{};
  for (std::size_t i = 0; i < 3 && !fill.empty(); ++i) pixel[i] = static_cast<std::uint8_t>(fill[i % fill.size()]);
  if (channels == 1) make_grey(std::span(pixel).first(3));
  return pixel;
}

ViewAxes axes_of(const Box& region, std::int32_t width, std::int32_t height) noexcept {
  return {{.origin = region.left, .in = region.width(), .out = width, .from = 0, .count = width},
          {.origin = region.top, .in = region.height(), .out = height, .from = 0, .count = height}};
}

// The limiting side becomes size / center_fraction; the other side follows, rounded down to an
// integer as in torchvision. If one exceeds what can be resampled, the region is cut out first and
// then resized.
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
  return part_of(resampling_axis(axis.in, axis.out), first - axis.origin, end - first, axis.from + axis.begin(),
                 axis.end() - axis.begin());
}

void begin_exactly(Resizer& resizer, const Image& image, const ViewAxes& axes, const Box& pixels, bool mirror,
                   const FillPixel& fill) {
  resizer.begin(image, image.place_of(pixels), resampling_axis(axes.across, pixels.left, pixels.right),
                resampling_axis(axes.down, pixels.top, pixels.bottom), mirror);
  if (axes.across.is_inside() && axes.down.is_inside()) return;
  resizer.surround(axes.across.begin(mirror), axes.down.begin(), axes.across.count, fill);
}

}  // namespace forebay::make
