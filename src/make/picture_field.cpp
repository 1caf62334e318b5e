#include "picture_field.hpp"

#include <cstdint>
#include <cstring>
#include <string>

#include <forebay/error.hpp>

namespace forebay::make {
namespace {

TransformOptions options_of_picture(const Field& field, TransformOptions options) {
  // [channels, H, W] or [H, W, channels] in a batch, [channels] before.
  const bool is_last = field.shape.size() == 3 && options.layout == Layout::nhwc;
  options.channels = field.shape[is_last ? 2 : 0];
  options.dtype = field.dtype;
  options.mean = field.mean;
  options.std = field.std;
  return options;
}

}  // namespace

PictureField::PictureField(const Field& field, const TransformOptions& options)
    : image_{.exif = options.exif, .max_pixels = options.max_pixels},
      width_(static_cast<std::int32_t>(options.size[1])),
      height_(static_cast<std::int32_t>(options.size[0])),
      mean_(field.mean),
      std_(field.std),
      fill_(options.fill),
      conversion_(conversion_of(options_of_picture(field, options), false)),
      convert_(trusted_convert(best_kernels(), conversion_)) {
  image_.grey = conversion_.channels == 1;
}

// A picture beside the image (a depth map, a second camera) has to have the image's size, and shows
// the same part of it. One that carries no EXIF orientation is turned like its image if its size
// says that it is stored unturned.
void PictureField::make(std::span<const std::byte> bytes, const ShownPart& shown, ImageDecoder& decoder,
                        Workspace& workspace, std::span<std::byte> out) const {
  const auto& [view, axes, turn] = shown;
  ImageSize size = decoder.open(bytes, image_);
  if (turn.is_of_stored(size, {view.width, view.height}) && decoder.orientation() == 1) {
    ImageOptions turned = image_;
    turned.orientation = turn.orientation;
    size = decoder.open(bytes, turned);
  }
  if (size.width != view.width || size.height != view.height) {
    throw SampleError("a picture of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                      " pixels for an image of " + std::to_string(view.width) + "x" + std::to_string(view.height));
  }
  if (decoder.wide_channels() != 0 && conversion_.dtype != DType::uint8) {
    decoder.decode_wide(workspace.wide);
    return store_wide(workspace, shown, out);
  }
  const Box pixels = pixels_of(axes);
  decoder.decode(pixels, 1, workspace.image);
  Resizer& resizer = workspace.resizer;
  begin_exactly(resizer, workspace.image, axes, pixels, view.mirror,
                fill_pixel(fill_, static_cast<std::int64_t>(conversion_.channels)));
  const std::size_t step =
      out.size() / static_cast<std::size_t>(height_) / (conversion_.layout == Layout::nchw ? conversion_.channels : 1);
  std::byte* to = out.data();
  for (std::int32_t y = 0; y < height_; ++y, to += step) convert_(resizer.row(y), conversion_, to);
}

// Of more than 8 bits: resampled and normalised in double, once per element, because no table
// covers the values.
void PictureField::store_wide(Workspace& workspace, const ShownPart& shown, std::span<std::byte> out) const {
  const std::size_t channels = conversion_.channels;
  set_channels(static_cast<int>(channels), workspace.wide);
  const Box from = pixels_of(shown.axes);
  const std::vector<double>& values =
      workspace.wide_resizer.resize(workspace.wide, from, resampling_axis(shown.axes.across, from.left, from.right),
                                    resampling_axis(shown.axes.down, from.top, from.bottom), shown.view.mirror);
  workspace.wide.release_large();
  const auto& [across, down] = shown.axes;
  const FillPixel fill = fill_pixel(fill_, conversion_.channels == 1 ? 1 : 3);
  const std::size_t element = size_of(conversion_.dtype);
  const std::size_t pixels = static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_);
  const bool planar = conversion_.layout == Layout::nchw;
  const std::int32_t left = across.begin(shown.view.mirror);
  const Box inside{left, down.begin(), left + across.end() - across.begin(), down.end()};
  std::size_t i = 0;     // pixels of the result
  std::size_t next = 0;  // values of what is resized
  for (std::int32_t y = 0; y < height_; ++y) {
    for (std::int32_t x = 0; x < width_; ++x, ++i) {
      const bool is_inside = x >= inside.left && x < inside.right && y >= inside.top && y < inside.bottom;
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const double value = is_inside ? values[next++] : static_cast<double>(fill[channel]);
        const std::uint32_t bits = encode((value - mean_[channel]) / std_[channel], conversion_.dtype);
        const std::size_t place = planar ? channel * pixels + i : i * channels + channel;
        std::memcpy(out.data() + place * element, &bits, element);
      }
    }
  }
}

}  // namespace forebay::make
