#pragma once

#include "support.hpp"

// Image files for every codec, written by the libraries commonly used for them, and the expected
// pixels.
namespace forebay::testing {

struct CodecFile {
  std::string what;  // "PNG, 4-bit palette"
  std::vector<std::byte> bytes;
  std::int32_t width = 0;  // as stored
  std::int32_t height = 0;
  int orientation = 1;
  std::vector<std::uint8_t> rgb;                    // as stored
  std::optional<std::vector<std::uint8_t>> values;  // as a mask; none if it cannot be one
  // Recomputes checksums after damage, so that the damage reaches the code behind their check; null
  // if the format has none.
  void (*repair)(std::vector<std::byte>& bytes) = nullptr;
  std::vector<float> wide = {};  // as stored, one channel or three; empty if values have at most 8 bits
};

// A value for each sample of an image, from 0 to `most`.
using SampleAt = std::function<unsigned(std::int32_t x, std::int32_t y, int channel, unsigned most)>;
// Smooth enough to compress, different in every pixel and channel.
[[nodiscard]] unsigned pattern(std::int32_t x, std::int32_t y, int channel, unsigned most);

[[nodiscard]] std::vector<CodecFile> png_files();
[[nodiscard]] std::vector<CodecFile> webp_files();
[[nodiscard]] std::vector<CodecFile> tiff_files();
[[nodiscard]] std::vector<CodecFile> npy_files();
[[nodiscard]] std::vector<CodecFile> bmp_files();
[[nodiscard]] std::vector<CodecFile> pnm_files();

// The files of all codecs that this build has.
[[nodiscard]] std::vector<CodecFile> codec_files();

// One file of each kind that needs a different amount of memory per pixel, of this width and
// height.
[[nodiscard]] std::vector<CodecFile> large_png_files(std::int32_t side);
[[nodiscard]] std::vector<CodecFile> large_webp_files(std::int32_t side);
[[nodiscard]] std::vector<CodecFile> large_tiff_files(std::int32_t side);

// EXIF data with an orientation: a TIFF structure.
[[nodiscard]] std::vector<std::uint8_t> exif_of(int orientation);

// R = G = B.
[[nodiscard]] std::vector<std::uint8_t> grey_to_rgb(const std::vector<std::uint8_t>& grey);

}  // namespace forebay::testing
