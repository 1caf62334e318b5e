#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "image.hpp"

namespace forebay::jpeg {

class DecodeIndex;
struct PixelKernels;
}  // namespace forebay::jpeg

namespace forebay::make {

class TableCache;

// What the header of a JPEG file says, as libjpeg read it.
struct JpegHeader {
  std::int32_t width = 0;  // as stored, before the EXIF orientation is applied
  std::int32_t height = 0;
  int orientation = 1;  // 1 to 8; 1 if ImageOptions::exif is off
  // Huffman-coded, sequential, 8 bits, one scan; grey, or YCbCr in 4:4:4, 4:2:2, 4:2:0 or 4:4:0;
  // with an end-of-image marker after the header. These are the files that hardware decoders
  // accept. Never a packed file.
  bool is_plain = false;
};

// Decodes JPEG files to RGB, byte for byte equal to a full decode by the linked libjpeg-turbo (accurate integer DCT,
// fancy upsampling), as written by `djpeg -pnm`, even if only a part is decoded:
//  - grey is replicated to R = G = B (djpeg writes one channel);
//  - CMYK and YCCK: R = round(C * K / 255), G and B likewise from M and Y. The stored values are assumed to be
//  inverted, 0 = full ink, as Adobe's programs write them, with or without an Adobe marker.
//
// open() reads the header, then decode() reads the wanted pixels. Anything below the wanted rows is ignored: damage
// there is not detected, except that a file that ends there without its end-of-image marker is refused. Whether a file
// is refused depends only on its bytes and the region.
//
// A decoder belongs to one thread and is reused from image to image. It keeps its memory, except that more than
// JpegMemory::kKeptBytes is freed once no image has needed it for a while. No image, decoded or not, leaves state that
// could affect the next one.
class JpegDecoder {
 public:
  // Kernels, index and tables must outlive the decoder. With `kernels` (jpeg/pixel_kernels.hpp)
  // Forebay's own decoder decodes plain files and libjpeg-turbo all others; pixels and refusals are
  // the same. Null: libjpeg-turbo decodes everything. Of files in `index` (jpeg/decode_index.hpp)
  // the own decoder decodes little more than the region. Null: no index. With `tables`, packed JPEG
  // files (pack/jpeg_packer.hpp) are decoded too, to the pixels of the original files.
  explicit JpegDecoder(const jpeg::PixelKernels* kernels = nullptr, const jpeg::DecodeIndex* index = nullptr,
                       TableCache* tables = nullptr);
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  // Reads the header; the size is that of the image as displayed. The bytes must stay until decode() returns or the
  // next open(). Throws SampleError with the reason for
  //  - bytes that are not a JPEG (the reason says what they are instead);
  //  - a packed JPEG that is damaged or whose tables are missing;
  //  - more than options.max_pixels pixels;
  //  - colour spaces other than grey, YCbCr, RGB, CMYK and YCCK;
  //  - a header that libjpeg refuses or warns about.
  ImageSize open(std::span<const std::byte> bytes, const ImageOptions& options);

  // The header of the open image. REQUIRES: open() succeeded, and no decode() since.
  [[nodiscard]] JpegHeader header() const;

  // The orientation of the open image. REQUIRES: as header().
  [[nodiscard]] int orientation() const noexcept;

  // Decodes `region` of the open image, in its displayed orientation. `out` receives at least the
  // region, and out.area says what it received. shrink = 2, 4 or 8 decodes an image that many times
  // smaller from fewer DCT coefficients: faster, but lossy; the pixels equal those of libjpeg's
  // full decode at that scale. Throws SampleError, and leaves `out` unspecified, for
  //  - more than 100 scans (a progressive file can ask for minutes of work with few bytes);
  //  - whatever libjpeg refuses or warns about up to the region's last row, and up to the end of
  //    the file if that is the image's last row or the file has several scans: after a warning
  //    libjpeg makes up pixels. Surplus bytes between segments are accepted, since nothing is
  //    missing then;
  //  - no end-of-image marker after the header.
  // REQUIRES: open() succeeded, and this is the first decode() since; region within the image and
  // not empty; shrink is 1, 2, 4 or 8.
  void decode(const Box& region, std::int32_t shrink, Image& out);

  // Decodes a whole image: open() and decode().
  void decode(std::span<const std::byte> bytes, const ImageOptions& options, Image& out);

  // Whether the last successful decode() used libjpeg-turbo only for the header.
  [[nodiscard]] bool was_own() const noexcept;
  // Whether it also used the index.
  [[nodiscard]] bool was_indexed() const noexcept;

  // The index entry of the open image. Empty if an entry would gain nothing, without kernels, and
  // for files that libjpeg-turbo decodes or refuses. Called instead of decode(), with the same
  // REQUIRES.
  [[nodiscard]] std::vector<std::byte> locate();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::make
