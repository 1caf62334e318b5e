#include "canvas_maker.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "conversion.hpp"
#include "image.hpp"
#include "renderers.hpp"

namespace forebay::make {
namespace {

Conversion plain_bytes(TransformOptions options) {
  options.dtype = DType::uint8;
  options.layout = Layout::nhwc;
  return conversion_of(options, false);
}

std::int32_t smaller(std::int32_t image, std::int64_t place) noexcept {
  return static_cast<std::int32_t>(std::min<std::int64_t>(image, place));
}

}  // namespace

CanvasMaker::CanvasMaker(const TransformOptions& options, const Kernels& kernels)
    : format_(canvas_format(options, 1)),
      conversion_(plain_bytes(options)),
      convert_(trusted_convert(kernels, conversion_)) {}

CanvasMaker::View CanvasMaker::view(std::int32_t width, std::int32_t height, const std::optional<Box>& box) const {
  const Box region = clamp_to_image(box, width, height);
  return {region,
          {.width = region.width(),
           .height = region.height(),
           .canvas_width = smaller(region.width(), format_.width),
           .canvas_height = smaller(region.height(), format_.height)}};
}

// The largest power of two by which the decoder may shrink the image without the canvas losing
// resolution.
std::int32_t CanvasMaker::shrink_of(const View& view) noexcept {
  std::int32_t shrink = 1;
  while (shrink < 8 && view.region.width() >= 2 * shrink * view.info.canvas_width &&
         view.region.height() >= 2 * shrink * view.info.canvas_height) {
    shrink *= 2;
  }
  return shrink;
}

// An image that fits is copied as it is; a larger one is resampled to the size of the canvas.
// Canvases differ in size, so the CanvasInfo records it.
void CanvasMaker::render(const Image& image, const View& view, const SamplePlace& place, Scratch& scratch) const {
  const Box from = image.place_of(view.region);
  const CanvasInfo& info = view.info;
  std::memcpy(place.info.data(), &info, sizeof info);
  std::byte* to = place.pixels.data();
  if (from.width() == info.canvas_width && from.height() == info.canvas_height) {
    const auto bytes = static_cast<std::size_t>(info.canvas_width) * Columns::kInputPixelBytes;
    const auto left = static_cast<std::size_t>(from.left) * Columns::kInputPixelBytes;
    for (std::int32_t y = from.top; y < from.bottom; ++y, to += format_.row_bytes()) {
      std::memcpy(to, image.row(y) + left, bytes);
    }
    return;
  }
  Conversion conversion = conversion_;
  conversion.width = static_cast<std::size_t>(info.canvas_width);
  scratch.begin(image, from, info.canvas_width, info.canvas_height, false);
  for (std::int32_t y = 0; y < info.canvas_height; ++y, to += format_.row_bytes()) {
    convert_(scratch.row(y), conversion, to);
  }
}

}  // namespace forebay::make
