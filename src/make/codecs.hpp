#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <forebay/error.hpp>

#include "data/image_kinds.hpp"

// Images that are not JPEG files. Each kind has one file here, codec_NAME.cpp, and one line in data/image_kinds.hpp.
// ImageDecoder finds the kind of a file by its first bytes and turns its pixels; a codec knows of neither.
namespace forebay {

// What a codec finds in a file before it decodes any pixels. Sides are 1 or more, as stored.
struct CodecHeader {
  std::int32_t width = 0;
  std::int32_t height = 0;
  int orientation = 1;  // EXIF, 1 to 8
  // 1 or 3 where decode_wide() gives numbers that decode() cannot: of more than 8 bits. Else 0.
  int wide_channels = 0;
};

// Decodes one image after the other; belongs to one thread. All members throw SampleError for bytes that are no such
// image or that it does not decode, and leave nothing behind that the next image could see.
class Codec {
 public:
  virtual ~Codec() = default;

  // Reads the header. The bytes must stay until the image is decoded or the next one opened. Takes no memory in
  // proportion to the size that the header claims: that has not been compared with transform.max_pixels yet.
  [[nodiscard]] virtual CodecHeader open(std::span<const std::byte> bytes) = 0;

  // All pixels of the image that was opened, as they are stored: 8-bit RGB, interleaved, rows from the top without
  // padding. Alpha is dropped; 16-bit values lose their lower byte. A file that ends early is refused.
  // REQUIRES: open() succeeded, and nothing was decoded since; rgb.size() == 3 * width * height.
  virtual void decode(std::span<std::uint8_t> rgb) = 0;

  // The same of an image that has one channel of at most 8 bits: grey values or palette indices as they stand in the
  // file, neither scaled nor looked up, one byte each. Throws SampleError for an image of another kind.
  // REQUIRES: likewise; indices.size() == width * height.
  virtual void decode_indices(std::span<std::uint8_t> indices) = 0;

  // The same of an image whose numbers have more than 8 bits: each as it stands in the file, as many for a pixel as the
  // header's wide_channels say, interleaved. Alpha is dropped; grey is 0 for black.
  // REQUIRES: likewise; wide_channels is not 0; values.size() == wide_channels * width * height.
  virtual void decode_wide(std::span<float> /*values*/) { throw SampleError("it has no numbers of more than 8 bits"); }
};

// How a kind of file is told and decoded. Any thread.
struct CodecKind {
  bool (*matches)(std::span<const std::byte> bytes) noexcept = nullptr;  // by the first bytes
  std::unique_ptr<Codec> (*make)() = nullptr;                            // null where the library was not there
  std::string_view library;                                              // that it needs
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

}  // namespace forebay
