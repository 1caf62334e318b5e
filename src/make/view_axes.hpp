#pragma once

#include <algorithm>
#include <cstdint>

#include <forebay/dataset.hpp>
#include <forebay/view.hpp>

#include "image.hpp"
#include "resample_math.hpp"
#include "resizer.hpp"
#include "views.hpp"

// Where the pixels of a view lie in its image, to a fraction of a pixel. All functions are pure; any thread may call.
namespace forebay::make {

// Along one side: `in` pixels of the image, from `origin` on, are resized to `out`, and of these the view shows
// `count`, from `from` on. A region that is resized to the view's size is one with from = 0 and count = out.
struct ViewAxis {
  std::int32_t origin = 0;
  std::int32_t in = 1;
  std::int32_t out = 1;
  std::int32_t from = 0;
  std::int32_t count = 1;

  // Where a place in the image that the view shows lies in it.
  [[nodiscard]] double in_view(double image) const noexcept {
    return std::clamp((image - origin) * out / in - from, 0.0, static_cast<double>(count));
  }
  // Where a place in the view lies in the image.
  [[nodiscard]] double in_image(std::int32_t view) const noexcept {
    return origin + static_cast<double>(std::int64_t{from + view} * in) / out;
  }
  // The image's pixel under the centre of the view's pixel i.
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

// A region that is resized as a whole.
[[nodiscard]] ViewAxes axes_of(const Box& region, std::int32_t width, std::int32_t height) noexcept;

// The middle of `box` as torchvision's Resize and CenterCrop cut it: the box is resized so that the side which limits
// the view becomes that of the view divided by `fraction`, in whole pixels, and then the middle of the result is cut
// out. Where the box would become wider or higher than Resampling::kMaxSide, the central_region() is resized instead.
[[nodiscard]] ViewAxes central_axes(const Box& box, std::int32_t width, std::int32_t height, double fraction) noexcept;

// What the view shows, each side to the nearest pixel of the image; at least one by one.
[[nodiscard]] Box shown_region(const ViewAxes& axes) noexcept;

// The pixels of the image that the view is made of: those around what it shows take part in its outermost ones.
[[nodiscard]] Box pixels_of(const ViewAxes& axes) noexcept;

// How the image's pixels from `first` to `end` become the view's. REQUIRES: they are those of pixels_of().
[[nodiscard]] ResamplingAxis resampling_axis(const ViewAxis& axis, std::int32_t first, std::int32_t end) noexcept;

// Has the view resized from pixels of the image at full size. REQUIRES: `pixels` are pixels_of(axes), within
// image.area.
void begin_exactly(Resizer& resizer, const Image& image, const ViewAxes& axes, const Box& pixels, bool mirror);

// What a sample shows of its image, for what lies beside that.
struct ShownPart {
  const SampleView& view;
  const ViewAxes& axes;
  const ImageTurn& turn;
};

}  // namespace forebay::make
