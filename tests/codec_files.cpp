#include "codec_files.hpp"

#include <iterator>

namespace forebay::testing {

unsigned pattern(std::int32_t x, std::int32_t y, int channel, unsigned most) {
  const auto step = static_cast<unsigned>(x * 7 + y * 13 + channel * 29 + x * y);
  return static_cast<unsigned>(std::uint64_t{step % 97U} * most / 96U);
}

std::vector<CodecFile> codec_files() {
  std::vector<CodecFile> files = png_files();
  const auto add = [&](std::vector<CodecFile> more) {
    files.insert(files.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  add(webp_files());
  add(tiff_files());
  add(npy_files());
  add(bmp_files());
  add(pnm_files());
  return files;
}

std::vector<std::uint8_t> exif_of(int orientation) {
  return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, static_cast<std::uint8_t>(orientation),
          0,   0,   0,  0, 0, 0, 0};
}

std::vector<std::uint8_t> grey_to_rgb(const std::vector<std::uint8_t>& grey) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(grey.size() * 3);
  for (const auto value : grey) rgb.insert(rgb.end(), 3, value);
  return rgb;
}

}  // namespace forebay::testing
