#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "image.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg/pixel_stage.hpp"
#include "jpeg/scan_decoder.hpp"
#include "libjpeg_decoder.hpp"

namespace forebay {

// Decodes the JPEG files that nearly all are: grey, YCbCr or RGB, sequential, Huffman-coded, 8 bits, one scan. Header
// checks, all other files, and every refusal are libjpeg's.
//
// Invariant: what it decodes, libjpeg decodes too, without a complaint and to the same pixels. Whatever is unusual
// about a file makes it stop.
class PlainJpegDecoder {
 public:
  // `kernels` must outlive it.
  explicit PlainJpegDecoder(const PixelKernels& kernels) : stage_(kernels) {}

  // As JpegDecoder::decode() without shrinking, except that it leaves the file open, and gives back whether it could:
  // if not, `out` is unspecified, and what the file is worth is for libjpeg to say.
  [[nodiscard]] bool decode(const OpenJpeg& file, const Box& region, Image& out);

 private:
  [[nodiscard]] bool describe(const OpenJpeg& file);

  PixelStage stage_;
  ScanDecoder scan_decoder_;
  JpegFrame frame_;  // of the file that is being decoded
  ScanDecoder::Scan scan_;
  std::vector<std::uint8_t> strip_;  // rows that wait to be turned
};

}  // namespace forebay
