#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <forebay/error.hpp>

#include "data/image_kinds.hpp"

// Codecs of images other than JPEG files. Each kind has one file here, codec_NAME.cpp, and one line in
// data/image_kinds.hpp. ImageDecoder finds the kind of a file by its first bytes and applies the orientation; codecs do
// neither.
namespace forebay::make {

// What a codec learns from the header, before it decodes pixels. Width and height are as stored, at
// least 1.
struct CodecHeader {
  std::int32_t width = 0;
  std::int32_t height = 0;
  int orientation = 1;  // EXIF, 1 to 8
  // 1 or 3 if the image has numbers of more than 8 bits, which decode_wide() preserves and decode()
  // does not; else 0.
  int wide_channels = 0;
};

// The error for an image that decode_indices() does not accept. `bits`: bits per channel.
[[nodiscard]] inline SampleError no_mask(std::string_view title, int channels, int bits) {
  return SampleError(
      "a mask must have one channel of at most 8 bits; this " + std::string(title) + " has " +
      std::to_string(channels) + " of " + std::to_string(bits) +
      (channels >= 3 ? "; where its colours are classes, list them in the field's key \"colours\"" : ""));
}

// Decodes one image after the other; belongs to one thread. All members throw SampleError for bytes
// that are not an image of this kind, or that cannot be decoded, and leave no state that could
// affect the next image.
class Codec {
 public:
  virtual ~Codec() = default;

  // Reads the header. The bytes must stay valid until the image is decoded or the next one opened.
  // Must not allocate in proportion to the size that the header claims: that has not been compared
  // with transform.max_pixels yet.
  [[nodiscard]] virtual CodecHeader open(std::span<const std::byte> bytes) = 0;

  // All pixels of the image that was opened, as they are stored: 8-bit RGB, interleaved, rows from the top without
  // padding. Alpha is dropped; 16-bit values lose their lower byte. A file that ends early is refused.
  // REQUIRES: open() succeeded, and nothing was decoded since; rgb.size() == 3 * width * height.
  virtual void decode(std::span<std::uint8_t> rgb) = 0;

  // Likewise for an image with one channel of at most 8 bits: grey values, 0 for black, or palette
  // indices, one byte each, as stored (neither scaled nor looked up). Throws SampleError for any
  // other image. REQUIRES: as decode(); indices.size() == width * height.
  virtual void decode_indices(std::span<std::uint8_t> indices) = 0;

  // Likewise for an image whose numbers have more than 8 bits: each as stored, wide_channels per
  // pixel, interleaved. Alpha is dropped; in grey images 0 is black. REQUIRES: as decode();
  // wide_channels is not 0; values.size() == wide_channels * width * height.
  virtual void decode_wide(std::span<float> /*values*/) { throw SampleError("it has no numbers of more than 8 bits"); }
};

// How a kind of file is recognised and decoded. Any thread.
struct CodecKind {
  bool (*matches)(std::span<const std::byte> bytes) noexcept = nullptr;  // by first bytes
  std::unique_ptr<Codec> (*make)() = nullptr;                            // null if built without the library
  std::string_view library;                                              // needed; empty: none
};

namespace codecs {
#define FOREBAY_DECLARE_CODEC(NAME, TITLE, ENDINGS) extern const CodecKind NAME;
FOREBAY_IMAGE_KINDS(FOREBAY_DECLARE_CODEC)
#undef FOREBAY_DECLARE_CODEC
}  // namespace codecs

struct NamedCodec {
  std::string_view title;
  const CodecKind* kind = nullptr;
};

#define FOREBAY_NAMED_CODEC(NAME, TITLE, ENDINGS) NamedCodec{TITLE, &codecs::NAME},
inline constexpr std::array kCodecs{FOREBAY_IMAGE_KINDS(FOREBAY_NAMED_CODEC)};
#undef FOREBAY_NAMED_CODEC

}  // namespace forebay::make
