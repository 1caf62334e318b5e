#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "image.hpp"
#include "jpeg/decode_index.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg/pixel_stage.hpp"
#include "jpeg/scan_decoder.hpp"
#include "libjpeg_decoder.hpp"
#include "pack/packed_coefficients.hpp"

namespace forebay::make {

// Decodes the JPEG files that nearly all are: grey, YCbCr or RGB, sequential, Huffman-coded, 8 bits, one scan. Header
// checks, all other files, and every refusal are libjpeg's.
//
// Invariant: what it decodes, libjpeg decodes too, without a complaint and to the same pixels. Whatever is unusual
// about a file makes it stop.
class PlainJpegDecoder {
 public:
  // What it is given must outlive it; no index: null.
  PlainJpegDecoder(const jpeg::PixelKernels& kernels, const jpeg::DecodeIndex* index)
      : stage_(kernels), index_(index) {}

  // As JpegDecoder::decode() without shrinking, except that it leaves the file open, and gives back whether it could:
  // if not, `out` is unspecified, and what the file is worth is for libjpeg to say.
  [[nodiscard]] bool decode(const OpenJpeg& file, const Box& region, Image& out);
  // The same of a packed file, of which `file` is the header alone. Throws SampleError when it is damaged.
  [[nodiscard]] bool decode(const OpenJpeg& file, const pack::PackedJpeg& packed, const Box& region, Image& out);
  // Whether the last decode() began in the middle of the scan, by the index.
  [[nodiscard]] bool was_indexed() const noexcept { return !scan_.points.empty(); }

  // The points of a file for an index; empty where they would gain nothing, and where libjpeg has to decode it.
  [[nodiscard]] std::vector<std::byte> locate(const OpenJpeg& file);

 private:
  // What is decoded of a file that describe() found to be plain.
  struct Part {
    Box box;  // as stored
    jpeg::PixelStage::Colours colours = jpeg::PixelStage::Colours::all;
    bool is_served = false;
  };

  [[nodiscard]] bool describe(const OpenJpeg& file);
  [[nodiscard]] Part part_of(const OpenJpeg& file, const Box& region) const noexcept;
  [[nodiscard]] jpeg::ScanPoints find_points(const OpenJpeg& file);
  [[nodiscard]] bool is_sound(const OpenJpeg& file, const Box& part);

  jpeg::PixelStage stage_;
  const jpeg::DecodeIndex* index_;
  std::vector<std::byte> points_;  // what scan_ has of the index
  jpeg::ScanDecoder scan_decoder_;
  pack::PackedCoefficients packed_;
  jpeg::JpegFrame frame_;  // of the file that is being decoded
  jpeg::ScanDecoder::Scan scan_;
  std::vector<std::uint8_t> strip_;  // rows that wait to be turned
};

}  // namespace forebay::make
