#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>
#include <forebay/random.hpp>
#include <forebay/view.hpp>

#include "image.hpp"
#include "resample_math.hpp"
#include "resizer.hpp"
#include "views.hpp"

// Where a view's pixels lie in its image, to a fraction of a pixel. All functions are pure; any
// thread may call.
namespace forebay::make {

// Along one axis, `in` pixels of the image, from `origin` on, are resized to `out` pixels. The view
// shows `count` of those, from `from` on. If a region is resized to the view's size, from = 0 and
// count = out. With a border the view extends beyond them: `from` may be negative, and from + count
// more than `out`.
struct ViewAxis {
  std::int32_t origin = 0;
  std::int32_t in = 1;
  std::int32_t out = 1;
  std::int32_t from = 0;
  std::int32_t count = 1;

  // [begin(), end()) are the view's pixels that show the image; the others are outside.
  [[nodiscard]] std::int32_t begin() const noexcept { return std::max(-from, 0); }
  [[nodiscard]] std::int32_t end() const noexcept { return std::min(out - from, count); }
  // The first of them in a row that is mirrored or not.
  [[nodiscard]] std::int32_t begin(bool mirror) const noexcept { return mirror ? count - end() : begin(); }
  [[nodiscard]] bool is_inside() const noexcept { return begin() == 0 && end() == count; }

  // Converts a position in the image to one in the view.
  [[nodiscard]] double in_view(double image) const noexcept {
    return std::clamp((image - origin) * out / in - from, 0.0, static_cast<double>(count));
  }
  // Converts a position in the view to one in the image.
  [[nodiscard]] double in_image(std::int32_t view) const noexcept {
    return origin + static_cast<double>(std::int64_t{from + view} * in) / out;
  }
  // The image pixel under the centre of the view's pixel i. REQUIRES: begin() <= i < end().
  [[nodiscard]] std::int32_t pixel_under(std::int64_t i) const noexcept {
    return static_cast<std::int32_t>(origin + (2 * (from + i) + 1) * in / (2 * std::int64_t{out}));
  }

  friend bool operator==(const ViewAxis&, const ViewAxis&) = default;
};

struct ViewAxes {
  ViewAxis across;
  ViewAxis down;

  friend bool operator==(const ViewAxes&, const ViewAxes&) = default;
};

// The crop of "random", and of "center" with transform.resize: cut out of a resized box with a
// border, like torchvision's Resize, Pad, and RandomCrop or CenterCrop.
struct CropRule {
  std::int32_t width = 1;  // size of the view
  std::int32_t height = 1;
  std::vector<std::int64_t> resize;      // height and width, or the shorter side; or empty
  std::array<std::int64_t, 4> border{};  // left, top, right, bottom
  bool is_random = false;                // else the centre

  // Throws SampleError if the box, resized and with its border, is smaller than the view. A central
  // crop permits that; some of its pixels are then outside. Draws from `random` if is_random.
  [[nodiscard]] ViewAxes axes_of(const Box& box, Random& random) const;
};

// The rule for these options; none for other crops. `deterministic`: central. REQUIRES: checked().
[[nodiscard]] std::optional<CropRule> crop_rule(const TransformOptions& options, bool deterministic);

// transform.padding as left, top, right and bottom.
[[nodiscard]] std::array<std::int64_t, 4> border_of(const std::vector<std::int64_t>& padding) noexcept;

// transform.fill as a pixel; if `channels` is 1, converted by make_grey().
[[nodiscard]] FillPixel fill_pixel(const std::vector<std::int64_t>& fill, std::int64_t channels) noexcept;

// The axes of a region that is resized to the view's size.
[[nodiscard]] ViewAxes axes_of(const Box& region, std::int32_t width, std::int32_t height) noexcept;

// The middle of `box` as torchvision's Resize and CenterCrop cut it. The box is resized so that its
// limiting side becomes the view's side divided by `fraction`, in whole pixels; then the middle of
// the result is cut out. If a side of the box would become longer than Resampling::kMaxSide, the
// central_region() is resized instead.
[[nodiscard]] ViewAxes central_axes(const Box& box, std::int32_t width, std::int32_t height, double fraction) noexcept;

// The region that the view shows, with each side rounded to a pixel of the image; at least one
// pixel wide and high. With a border it may extend beyond the image.
[[nodiscard]] Box shown_region(const ViewAxes& axes) noexcept;

// The image pixels that contribute to the view, including some around the shown region.
[[nodiscard]] Box pixels_of(const ViewAxes& axes) noexcept;

// How the image pixels [first, end) are resampled to the view's. REQUIRES: they are those of
// pixels_of().
[[nodiscard]] ResamplingAxis resampling_axis(const ViewAxis& axis, std::int32_t first, std::int32_t end) noexcept;

// Prepares the resizer to make the view from an image at full size; pixels outside the image become
// `fill`. REQUIRES: `pixels` are pixels_of(axes), within image.area.
void begin_exactly(Resizer& resizer, const Image& image, const ViewAxes& axes, const Box& pixels, bool mirror,
                   const FillPixel& fill);

// The part of its image that a sample shows, for the sample's other fields.
struct ShownPart {
  const SampleView& view;
  const ViewAxes& axes;
  const ImageTurn& turn;
};

}  // namespace forebay::make
