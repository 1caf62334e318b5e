#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "codecs.hpp"
#include "image.hpp"
#include "jpeg_decoder.hpp"
#include "pack/packed_jpeg.hpp"
#include "signature.hpp"
#include "wide_image.hpp"

namespace forebay::make {

// Decodes image files of every supported kind to RGB. The first bytes determine the kind: a JPEG
// goes to JpegDecoder, with its guarantees, any other file to its Codec. Codecs decode the whole
// image whatever region is requested, so they find damage anywhere in the pixels. Belongs to one
// thread and is reused from image to image.
class ImageDecoder {
 public:
  // Bytes of memory per pixel of an image: for an ordinary JPEG its 8-bit colours; at most, with
  // the intermediate images of some kinds. docs/scaling.md has a table. PNG and TIFF may also need
  // memory for all bytes of the file.
  static constexpr int kBytesPerPixel = 3;
  static constexpr int kMostBytesPerPixel = 12;

  // The arguments are those of JpegDecoder.
  explicit ImageDecoder(const jpeg::PixelKernels* kernels = nullptr, const jpeg::DecodeIndex* index = nullptr,
                        TableCache* tables = nullptr)
      : jpeg_(kernels, index, tables) {}

  // Reads the header and returns the size of the image as displayed. The bytes must stay valid
  // until decode() returns or the next open(). Throws SampleError for bytes that are not an image
  // (the message says what they are instead), for more than options.max_pixels pixels, and as
  // JpegDecoder::open() and Codec::open() do.
  ImageSize open(std::span<const std::byte> bytes, const ImageOptions& options) {
    if (!starts_as_jpeg(bytes) && !pack::starts_as_packed_jpeg(bytes)) return open_other(bytes, options);
    codec_ = nullptr;
    return jpeg_.open(bytes, options);
  }

  // The EXIF orientation, 1 to 8, applied to the open image. REQUIRES: open() succeeded, and no decode() since.
  [[nodiscard]] int orientation() const { return codec_ == nullptr ? jpeg_.orientation() : header_.orientation; }

  // Whether the open image can be decoded at reduced size.
  [[nodiscard]] bool can_shrink() const noexcept { return codec_ == nullptr; }

  // Like JpegDecoder::decode(); if !can_shrink(), `shrink` is ignored.
  void decode(const Box& region, std::int32_t shrink, Image& out) {
    if (codec_ != nullptr) return decode_other(region, out);
    jpeg_.decode(region, shrink, out);
  }

  // As JpegDecoder's; false for all other kinds.
  [[nodiscard]] bool was_own() const noexcept { return codec_ == nullptr && jpeg_.was_own(); }
  [[nodiscard]] bool was_indexed() const noexcept { return codec_ == nullptr && jpeg_.was_indexed(); }

  // The channels, 1 or 3, of an image whose numbers have more than 8 bits; 0 if decode() loses nothing.
  [[nodiscard]] int wide_channels() const noexcept { return codec_ == nullptr ? 0 : header_.wide_channels; }

  // Decodes such an image whole, as displayed. Throws SampleError as decode() does, and for numbers
  // that are not finite. REQUIRES: as decode(); wide_channels() != 0.
  void decode_wide(WideImage& out);

  // Decodes a mask: an image with one channel of at most 8 bits, with values as stored
  // (Codec::decode_indices()). Throws SampleError as open() does, and for any other image; a JPEG
  // is never accepted.
  void decode_mask(std::span<const std::byte> bytes, const ImageOptions& options, Mask& out);

  // Decodes a mask whose colours are its classes: any image but a JPEG, with at most 8 bits per
  // channel, whole and without alpha. Throws SampleError as decode_mask() does.
  void decode_colours(std::span<const std::byte> bytes, const ImageOptions& options, Image& out);

 private:
  [[nodiscard]] Codec& open_mask(std::span<const std::byte> bytes, const ImageOptions& options);
  [[nodiscard]] Codec& open_codec(std::span<const std::byte> bytes, const ImageOptions& options);
  ImageSize open_other(std::span<const std::byte> bytes, const ImageOptions& options);
  void decode_other(const Box& region, Image& out);

  JpegDecoder jpeg_;
  std::array<std::unique_ptr<Codec>, kCodecs.size()> codecs_;  // created when first needed
  Codec* codec_ = nullptr;                                     // of the open image; null for a JPEG
  CodecHeader header_;
  bool grey_ = false;
  Image stored_;  // as stored, before rotation
  WideImage stored_wide_;
};

}  // namespace forebay::make
