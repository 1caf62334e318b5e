#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <forebay/detail/pipeline.hpp>

namespace forebay {

struct JpegOptions {
  bool exif = true;                       // turn the image to display orientation
  std::int64_t max_pixels = 178'956'970;  // width * height; larger images are refused
};

// Decodes JPEG files to RGB, byte-equal to the full decode of the libjpeg-turbo that is linked (accurate integer DCT,
// fancy upsampling), as `djpeg -pnm` writes it:
//  - grey is replicated to R = G = B (djpeg writes one channel);
//  - CMYK and YCCK: R = round(C * K / 255), G and B likewise from M and Y. The stored values are taken as inverted,
//    0 = full ink, the way Adobe's programs write them, whether or not an Adobe marker says so.
//
// One decoder belongs to one thread and is reused from image to image: its line buffers live as long as it does. No
// image leaves anything behind that the next one could see, whether it decoded or not.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  // Throws SampleError with the reason, and leaves `out` unspecified, for
  //  - bytes that are not a JPEG (the reason says what they are instead);
  //  - more than options.max_pixels pixels (known from the header, before anything is allocated), more than 100 scans
  //    (a progressive file can ask for minutes of work with few bytes);
  //  - colour spaces other than grey, YCbCr, RGB, CMYK and YCCK;
  //  - whatever libjpeg refuses or warns of: after a warning some pixels are made up. Surplus bytes between segments
  //    are the exception: nothing is missing then.
  void decode(std::span<const std::byte> bytes, const JpegOptions& options, Image& out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay
