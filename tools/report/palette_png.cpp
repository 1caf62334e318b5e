#include "palette_png.hpp"

#include <cmath>
#include <string>

#include <png.h>

#include <forebay/error.hpp>

namespace forebay::report {

// libpng's simplified API: a first call without memory gives an upper bound of the size.
std::vector<std::byte> encode_palette_png(int width, std::span<const std::uint8_t> indices,
                                          std::span<const std::array<float, 3>> palette) {
  std::vector<std::uint8_t> entries;
  for (const auto& colour : palette) {
    for (const float channel : colour) entries.push_back(static_cast<std::uint8_t>(std::lround(channel)));
  }
  png_image picture{};
  picture.version = PNG_IMAGE_VERSION;
  picture.width = static_cast<png_uint_32>(width);
  picture.height = static_cast<png_uint_32>(indices.size() / static_cast<std::size_t>(width));
  picture.format = PNG_FORMAT_RGB_COLORMAP;
  picture.colormap_entries = static_cast<png_uint_32>(palette.size());
  const auto write = [&](void* memory, png_alloc_size_t& size) {
    if (png_image_write_to_memory(&picture, memory, &size, 0, indices.data(), 0, entries.data()) != 0) return;
    throw Error("cannot encode a PNG of " + std::to_string(picture.width) + " x " + std::to_string(picture.height) +
                " pixels: " + static_cast<const char*>(picture.message));
  };
  png_alloc_size_t size = 0;
  write(nullptr, size);
  std::vector<std::byte> file(size);
  write(file.data(), size);
  file.resize(size);
  return file;
}

}  // namespace forebay::report
