// The fields that are pictures, cropped and mirrored like the sample's image: further images
// (PictureField) and masks (MaskField). A mask has a class number per pixel, from a file of
// indices, a file of colours, or shapes to be drawn. Masks are resized by nearest neighbour,
// because classes cannot be mixed. Runs on a decoder thread and writes to the field's place in the
// slot.

#include "mask_field.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <forebay/error.hpp>

namespace forebay::make {
namespace {

TransformOptions options_of_picture(const Field& field, TransformOptions options) {
  // The field's shape is [channels] as declared; in a batch it is [channels, H, W] or [H, W,
  // channels].
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

// Such a picture (a depth map, a second camera) must have the size of the sample's image, and shows
// the same part of it. One without an EXIF orientation of its own is rotated like the image if its
// size shows that it is stored unrotated.
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

// Stores a picture of more than 8 bits. Each element is resampled and normalised in double and
// rounded once, because no table could cover the values.
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
  std::size_t i = 0;     // index of the pixel in the result
  std::size_t next = 0;  // index of the next resized value
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

namespace {

// The values of a mask in rows of `width`.
template <typename Value>
struct MaskValues {
  const Value* first;
  std::int32_t width;
};

// Writes the part of a mask that the view shows. `columns` has the mask's column for each result
// column within the mask; `left` is the number of result columns before those. Everything outside
// the mask is 0.
template <typename T, typename Value>
void show_mask(const MaskValues<Value>& mask, const ViewAxes& axes, std::int32_t left,
               std::span<const std::size_t> columns, std::byte* out) {
  const ViewAxis& down = axes.down;
  const auto outside = [&](std::size_t count) { out = std::fill_n(out, count * sizeof(T), std::byte{0}); };
  const auto width = static_cast<std::size_t>(axes.across.count);
  const auto before = static_cast<std::size_t>(left);
  outside(width * static_cast<std::size_t>(down.begin()));
  for (std::int32_t y = down.begin(); y < down.end(); ++y) {
    outside(before);
    const auto row = static_cast<std::size_t>(down.pixel_under(y));
    const Value* const from = mask.first + row * static_cast<std::size_t>(mask.width);
    for (const std::size_t column : columns) {
      const T value = static_cast<T>(from[column]);
      std::memcpy(out, &value, sizeof value);
      out += sizeof value;
    }
    outside(width - before - columns.size());
  }
  outside(width * static_cast<std::size_t>(down.count - down.end()));
}

std::span<const float> values_in(const WideImage& mask) {
  return std::span(mask.values).first(static_cast<std::size_t>(mask.width) * static_cast<std::size_t>(mask.height));
}

// A mask whose type is wider than 8 bits may have larger values, but only integers.
void require_whole(const WideImage& mask) {
  constexpr float kMost = 1 << 24;  // integers up to here are exact in a float
  for (const float value : values_in(mask)) {
    if (value == std::floor(value) && std::fabs(value) <= kMost) continue;
    throw SampleError("a mask has whole numbers up to 16777216, and this one has " + std::to_string(value));
  }
}

std::string pixel_name(std::size_t pixel, std::int32_t width) {
  const auto row = static_cast<std::size_t>(width);
  return "the pixel at x " + std::to_string(pixel % row) + ", y " + std::to_string(pixel / row);
}

}  // namespace

MaskField::MaskField(const Field& field, const TransformOptions& options)
    : field_(field), image_{.exif = options.exif, .max_pixels = options.max_pixels} {
  if (!field.colours.empty()) colours_.emplace(field.colours);
}

// Translates colours to classes. A colour that belongs to no class is damage, unless the table has
// a class for all others.
void MaskField::look_up(const Image& colours, Mask& mask) const {
  mask.width = colours.width;
  mask.height = colours.height;
  mask.values.resize(static_cast<std::size_t>(mask.width) * static_cast<std::size_t>(mask.height));
  const std::uint8_t* from = colours.pixels.data();
  // Most pixels have the same colour as the one before.
  const std::uint8_t* known = nullptr;
  std::uint8_t value = 0;
  for (std::size_t i = 0; i < mask.values.size(); ++i, from += 3) {
    if (known == nullptr || std::memcmp(from, known, 3) != 0) {
      const auto found = colours_->class_of({from[0], from[1], from[2]});
      if (!found) {
        throw SampleError(pixel_name(i, mask.width) + " has the colour " + std::to_string(from[0]) + "," +
                          std::to_string(from[1]) + "," + std::to_string(from[2]) + ", which is not in fields." +
                          field_.name + R"(.colours; an entry "other=255" there would give all others a class)");
      }
      known = from;
      value = *found;
    }
    mask.values[i] = value;
  }
}

template <typename Value>
void MaskField::require_classes(std::span<const Value> values, std::int32_t width) const {
  const std::size_t classes = field_.classes.size();
  if (classes == 0) return;
  const auto is_beyond = [most = static_cast<Value>(classes - 1)](Value value) {
    return (value > most && value != Value{kIgnored}) || value < Value{0};
  };
  const auto beyond = std::ranges::find_if(values, is_beyond);
  if (beyond == values.end()) return;
  throw SampleError(pixel_name(static_cast<std::size_t>(beyond - values.begin()), width) + " has class " +
                    std::to_string(static_cast<std::int64_t>(*beyond)) + " of " + std::to_string(classes) +
                    " (fields." + field_.name + ".classes); only 255 may stand for no class");
}

// Returns true if the values have more than 8 bits and are in workspace.wide.
bool MaskField::decode(std::span<const std::byte> bytes, ImageDecoder& decoder, Workspace& workspace) const {
  if (data::is_drawn_mask(bytes)) {
    workspace.drawer.draw(bytes, image_, workspace.mask);
    return false;
  }
  if (colours_) {
    decoder.decode_colours(bytes, image_, workspace.colours);
    look_up(workspace.colours, workspace.mask);
    require_classes(std::span<const std::uint8_t>(workspace.mask.values), workspace.mask.width);
    return false;
  }
  if (field_.dtype != DType::uint8) {
    (void)decoder.open(bytes, image_);
    if (decoder.wide_channels() == 1) {
      decoder.decode_wide(workspace.wide);
      require_whole(workspace.wide);
      require_classes(values_in(workspace.wide), workspace.wide.width);
      return true;
    }
  }
  decoder.decode_mask(bytes, image_, workspace.mask);
  require_classes(std::span<const std::uint8_t>(workspace.mask.values), workspace.mask.width);
  return false;
}

void MaskField::make(std::span<const std::byte> bytes, const ShownPart& shown, ImageDecoder& decoder,
                     Workspace& workspace, std::span<std::byte> out) const {
  const SampleView& view = shown.view;
  const ViewAxes& axes = shown.axes;
  const ImageTurn& turned = shown.turn;
  const bool is_wide = decode(bytes, decoder, workspace);
  const ImageSize stored = is_wide ? ImageSize{workspace.wide.width, workspace.wide.height}
                                   : ImageSize{workspace.mask.width, workspace.mask.height};
  const bool turns = turned.is_of_stored(stored, {view.width, view.height});
  if (turns && is_wide) turn(workspace.wide, turned.orientation, workspace.turned_wide);
  if (turns && !is_wide) turn(workspace.mask, turned.orientation, workspace.turned_mask);
  const Mask& mask = turns ? workspace.turned_mask : workspace.mask;
  const WideImage& wide = turns ? workspace.turned_wide : workspace.wide;
  const ImageSize size = is_wide ? ImageSize{wide.width, wide.height} : ImageSize{mask.width, mask.height};
  if (size.width != view.width || size.height != view.height) {
    throw SampleError("a mask of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                      " pixels for an image of " + std::to_string(view.width) + "x" + std::to_string(view.height));
  }
  const std::int32_t first = axes.across.begin();
  const std::int32_t end = axes.across.end();
  workspace.columns.clear();
  // The column that a result pixel shows is the same in all rows.
  for (std::int32_t x = first; x < end; ++x) {
    const std::int32_t column = axes.across.pixel_under(view.mirror ? first + end - 1 - x : x);
    workspace.columns.push_back(static_cast<std::size_t>(column));
  }
  const auto show = [&](const auto& values) {
    const std::span<const std::size_t> columns = workspace.columns;
    const std::int32_t left = axes.across.begin(view.mirror);
    switch (size_of(field_.dtype)) {
      case 1: return show_mask<std::uint8_t>(values, axes, left, columns, out.data());
      case 4: return show_mask<std::int32_t>(values, axes, left, columns, out.data());
      default: return show_mask<std::int64_t>(values, axes, left, columns, out.data());
    }
  };
  is_wide ? show(MaskValues<float>{wide.values.data(), wide.width})
          : show(MaskValues<std::uint8_t>{mask.values.data(), mask.width});
}

}  // namespace forebay::make
