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

// What another decoder has to know of a JPEG file, as libjpeg read its header.
struct JpegHeader {
  std::int32_t width = 0;  // as stored, before the EXIF orientation is honoured
  std::int32_t height = 0;
  int orientation = 1;  // 1 to 8; 1 also where ImageOptions::exif is off
  // Huffman-coded, not progressive, 8 bits, one scan; grey, or YCbCr in 4:4:4, 4:2:2, 4:2:0 or 4:4:0; with an
  // end-of-image marker behind the header. What hardware decoders take; never a packed file.
  bool is_plain = false;
};

// Decodes JPEG files to RGB, byte-equal to the full decode of the libjpeg-turbo that is linked (accurate integer DCT,
// fancy upsampling), as `djpeg -pnm` writes it, also where only a part is decoded:
//  - grey is replicated to R = G = B (djpeg writes one channel);
//  - CMYK and YCCK: R = round(C * K / 255), G and B likewise from M and Y. The stored values are taken as inverted,
//    0 = full ink, the way Adobe's programs write them, whether or not an Adobe marker says so.
//
// open() reads the header, then decode() the pixels that are wanted. What lies below the wanted rows is not looked at:
// damage there goes unseen, except that a file which ends there without its end-of-image marker is refused. Whether a
// file is refused depends on its bytes and the region alone.
//
// One decoder belongs to one thread and is reused from image to image: its memory lives as long as it does, except that
// more than JpegMemory::kKeptBytes goes back when no image needs it for a while. No image leaves anything behind that
// the next one could see, whether it decoded or not.
class JpegDecoder {
 public:
  // With `kernels` (jpeg/pixel_kernels.hpp), which must outlive it, plain files are decoded by Forebay itself, and all
  // others by libjpeg-turbo; the pixels and the refusals are the same. Null: libjpeg-turbo decodes everything.
  // Of files in `index` (jpeg/decode_index.hpp), which must outlive it too, it decodes little more than the region.
  // Null: there is none. With `tables`, which must outlive it as well, it decodes packed JPEG files
  // (pack/jpeg_packer.hpp) too, to the pixels of the files that were packed.
  explicit JpegDecoder(const jpeg::PixelKernels* kernels = nullptr, const jpeg::DecodeIndex* index = nullptr,
                       TableCache* tables = nullptr);
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  // Reads the header; the size is that of the image as displayed. The bytes must stay until decode() returns or the
  // next open(). Throws SampleError with the reason for
  //  - bytes that are not a JPEG (the reason says what they are instead);
  //  - a packed JPEG that is damaged, or whose tables are not there;
  //  - more than options.max_pixels pixels;
  //  - colour spaces other than grey, YCbCr, RGB, CMYK and YCCK;
  //  - a header that libjpeg refuses or warns of.
  ImageSize open(std::span<const std::byte> bytes, const ImageOptions& options);

  // The header of the image that was opened. REQUIRES: open() succeeded, and no decode() since.
  [[nodiscard]] JpegHeader header() const;

  // Its orientation. REQUIRES: likewise
  [[nodiscard]] int orientation() const noexcept;

  // Decodes `region` of the image that was opened, in its displayed orientation. `out` gets at least the region, and
  // says in out.area what it got. shrink = 2, 4 or 8 decodes an image that many times smaller from fewer DCT
  // coefficients: faster, and lossy; its pixels too are those of libjpeg's full decode at that scale.
  // Throws SampleError, and leaves `out` unspecified, for
  //  - more than 100 scans (a progressive file can ask for minutes of work with few bytes);
  //  - whatever libjpeg refuses or warns of on the way to the region's last row, and to the end of the file where that
  //    is the image's last row or the file has several scans: after a warning some pixels are made up. Surplus bytes
  //    between segments are the exception: nothing is missing then;
  //  - no end-of-image marker behind the header.
  // REQUIRES: open() succeeded, and this is the first decode() since; region within the image and not empty; shrink is
  // 1, 2, 4 or 8.
  void decode(const Box& region, std::int32_t shrink, Image& out);

  // All of an image: both steps.
  void decode(std::span<const std::byte> bytes, const ImageOptions& options, Image& out);

  // Whether the last decode() that succeeded did without libjpeg-turbo, but for the header.
  [[nodiscard]] bool was_own() const noexcept;
  // Whether it used the index, too.
  [[nodiscard]] bool was_indexed() const noexcept;

  // What an index holds of the image that was opened; empty where that gains nothing, without kernels, and for files
  // that libjpeg-turbo decodes or refuses. REQUIRES: as decode(), in whose place it is called.
  [[nodiscard]] std::vector<std::byte> locate();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::make
