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

// Decodes the most common JPEG files: grey, YCbCr or RGB, sequential, Huffman-coded, 8 bits, one
// scan. Checks of the header, all other files, and every refusal are left to libjpeg. Belongs to
// one thread.
//
// Invariant: what it decodes, libjpeg also decodes, without a warning and to the same pixels. It
// stops at anything unusual in a file.
class PlainJpegDecoder {
 public:
  // The arguments must outlive it. `index`: null if there is none.
  PlainJpegDecoder(const jpeg::PixelKernels& kernels, const jpeg::DecodeIndex* index)
      : stage_(kernels), index_(index) {}

  // Like JpegDecoder::decode() without shrinking, except that it leaves the file open and returns
  // whether it succeeded. If it did not, `out` is unspecified and libjpeg must decide about the
  // file.
  [[nodiscard]] bool decode(const OpenJpeg& file, const Box& region, Image& out);
  // Likewise for a packed file, of which `file` is only the header. Throws SampleError if it is
  // damaged.
  [[nodiscard]] bool decode(const OpenJpeg& file, const pack::PackedJpeg& packed, const Box& region, Image& out);
  // Whether the last decode() used the index to begin in the middle of the scan.
  [[nodiscard]] bool was_indexed() const noexcept { return !scan_.points.empty(); }

  // The entry points of a file for an index; empty if they would gain nothing, or if libjpeg has to
  // decode the file.
  [[nodiscard]] std::vector<std::byte> locate(const OpenJpeg& file);

 private:
  // The part of a plain file (describe()) that is to be decoded.
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
  std::vector<std::byte> points_;  // the file's points, read from the index
  jpeg::ScanDecoder scan_decoder_;
  pack::PackedCoefficients packed_;
  jpeg::JpegFrame frame_;  // of the file being decoded
  jpeg::ScanDecoder::Scan scan_;
  std::vector<std::uint8_t> strip_;  // rows that wait to be rotated
};

}  // namespace forebay::make
