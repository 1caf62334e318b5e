// One interface to JPEG and the other codecs, for one decoder thread. The first bytes of a file
// decide which codec it is for. The size in its header is compared with transform.max_pixels before
// memory is allocated, and the image is rotated according to its EXIF orientation. JPEG files are
// decoded in part; the other formats do not allow that and are decoded whole. A codec is created
// for the first file of its kind, and kept.

#include "image_decoder.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <forebay/error.hpp>

namespace forebay::make {
namespace {

std::size_t pixels_of(const CodecHeader& header) noexcept {
  return static_cast<std::size_t>(header.width) * static_cast<std::size_t>(header.height);
}

}  // namespace

Codec& ImageDecoder::open_codec(std::span<const std::byte> bytes, const ImageOptions& options) {
  for (std::size_t i = 0; i < kCodecs.size(); ++i) {
    const auto& [title, kind] = kCodecs[i];
    if (!kind->matches(bytes)) continue;
    if (kind->make == nullptr) {
      throw SampleError("a " + std::string(title) + " image, and this build of Forebay was made without " +
                        std::string(kind->library));
    }
    if (codecs_[i] == nullptr) codecs_[i] = kind->make();
    header_ = codecs_[i]->open(bytes);
    require_permitted_size(title, header_.width, header_.height, options);
    if (!options.exif) header_.orientation = 1;
    if (options.orientation != 0) header_.orientation = options.orientation;
    return *codecs_[i];
  }
  throw SampleError("not an image (" + std::string(data::kImageKinds) + "): " + describe_content(bytes));
}

ImageSize ImageDecoder::open_other(std::span<const std::byte> bytes, const ImageOptions& options) {
  codec_ = &open_codec(bytes, options);
  grey_ = options.grey;
  return swaps_axes(header_.orientation) ? ImageSize{header_.height, header_.width}
                                         : ImageSize{header_.width, header_.height};
}

// A rotated image is decoded into a buffer of its own and copied from there.
void ImageDecoder::decode_other(const Box& region, Image& out) {
  const bool turned = header_.orientation != 1;
  Image& whole = turned ? stored_ : out;
  whole.resize(header_.width, header_.height);
  const auto rgb = std::span(whole.pixels).first(3 * pixels_of(header_));
  codec_->decode(rgb);
  if (grey_) make_grey(rgb);
  if (!turned) return;
  const StoredPicture picture{
      .pixels = whole.pixels, .width = header_.width, .height = header_.height, .orientation = header_.orientation};
  picture.show(region, out);
}

// One number that is not finite would spoil the loss of a whole batch, so it is refused here.
void ImageDecoder::decode_wide(WideImage& out) {
  const bool turned = header_.orientation != 1;
  WideImage& whole = turned ? stored_wide_ : out;
  whole.resize(header_.width, header_.height, header_.wide_channels);
  const auto values =
      std::span(whole.values).first(static_cast<std::size_t>(header_.wide_channels) * pixels_of(header_));
  codec_->decode_wide(values);
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
    throw SampleError("it has a number that is not finite, or that float32 does not hold");
  }
  if (!turned) return;
  turn(whole, header_.orientation, out);
  stored_wide_.release_large();
}

Codec& ImageDecoder::open_mask(std::span<const std::byte> bytes, const ImageOptions& options) {
  if (starts_as_jpeg(bytes) || pack::starts_as_packed_jpeg(bytes))
    throw SampleError(
        "a JPEG cannot be a mask: its values are not exact; convert it to PNG, for two classes with a threshold");
  Codec& codec = open_codec(bytes, options);
  if (header_.orientation != 1) throw SampleError("a mask with an EXIF orientation; store it as it is displayed");
  return codec;
}

void ImageDecoder::decode_mask(std::span<const std::byte> bytes, const ImageOptions& options, Mask& out) {
  Codec& codec = open_mask(bytes, options);
  if (header_.wide_channels == 1) {
    throw SampleError("a mask with values of more than 8 bits; dtype = \"int32\" of its field takes them");
  }
  out.width = header_.width;
  out.height = header_.height;
  out.values.resize(pixels_of(header_));
  codec.decode_indices(out.values);
}

void ImageDecoder::decode_colours(std::span<const std::byte> bytes, const ImageOptions& options, Image& out) {
  Codec& codec = open_mask(bytes, options);
  if (header_.wide_channels != 0) throw SampleError("a mask of colours must have at most 8 bits a channel");
  out.resize(header_.width, header_.height);
  codec.decode(std::span(out.pixels).first(3 * pixels_of(header_)));
}

}  // namespace forebay::make
