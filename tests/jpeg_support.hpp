#pragma once

#include <cstdio>  // for jpeglib.h

#include <jpeglib.h>

#include "support.hpp"

// Makes JPEG files for tests and decodes them with the plainest use of libjpeg. Compiled once, with
// optimisation, because many tests spend most of their time in it.
namespace forebay::testing {

struct Recipe {
  int width = 32;
  int height = 24;
  J_COLOR_SPACE input = JCS_RGB;
  J_COLOR_SPACE stored = JCS_YCbCr;
  int components = 3;
  bool subsampled = true;  // 4:2:0, for YCbCr and YCCK
  bool progressive = false;
  bool optimised = false;
  bool many_scans = false;  // 127 of them; grey only
  std::vector<std::pair<int, int>> sampling =
      {};  // horizontal and vertical factor of each component; overrides `subsampled`
  bool arithmetic = false;
  bool separate_scans = false;  // baseline with a scan for each component
  bool rough = false;           // progressive that leaves out most of the fine coefficients
  int restart_interval = 0;     // in MCUs
  std::vector<std::byte> app1 = {};
};

// Smooth colours with some noise, so that upsampling and rounding matter.
std::vector<std::uint8_t> test_pixels(int width, int height, int components);

std::vector<std::byte> make_jpeg(const Recipe& recipe);

// An APP1 segment with nothing but an EXIF orientation, little-endian.
std::vector<std::byte> exif_segment(int orientation);

// The pixels that djpeg gives for a valid file, as RGB: libjpeg's default output, grey replicated,
// CMYK converted as by djpeg. With `luma`, its luma instead of colours, if it has one.
std::vector<std::uint8_t> plain_decode(std::span<const std::byte> file, bool luma = false);

// How djpeg of the linked libjpeg judges a file.
enum class DjpegVerdict {
  whole,       // exit code 0
  odd_header,  // only warnings about the header
  damaged,     // any other warning, or an error
};
DjpegVerdict djpeg_verdict(std::span<const std::byte> file);

}  // namespace forebay::testing
