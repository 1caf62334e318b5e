#include <string>

#include "codec_files.hpp"

namespace forebay::testing {
namespace {

constexpr std::int32_t kWidth = 31;
constexpr std::int32_t kHeight = 17;

struct BmpRecipe {
  std::string what;
  unsigned bits = 24;
  unsigned header = 40;  // bytes; 12: OS/2's
  bool top_down = false;
  unsigned colours = 0;  // in the palette; 0: the maximum, and 0 in the header
  // Masks of red, green and blue; empty: the format's defaults.
  std::vector<std::uint32_t> masks = {};
};

class BmpBytes {
 public:
  void number(std::uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(i < 8 ? value >> (8 * i) & 0xffU : 0));
  }
  std::vector<std::byte> bytes;
};

std::uint8_t palette_colour(unsigned index, std::size_t channel) {
  return static_cast<std::uint8_t>(index * 37 + channel * 91 + 5);
}

unsigned shift_of(std::uint32_t mask) {
  unsigned shift = 0;
  while ((mask >> shift & 1U) == 0) ++shift;
  return shift;
}

CodecFile bmp_file(const BmpRecipe& recipe) {
  const bool has_palette = recipe.bits <= 8;
  const unsigned entries = recipe.colours > 0 ? recipe.colours : has_palette ? 1U << recipe.bits : 0;
  const unsigned entry_bytes = recipe.header == 12 ? 3 : 4;
  const unsigned masks_bytes = recipe.header == 40 ? 4 * static_cast<unsigned>(recipe.masks.size()) : 0;
  const unsigned first = 14 + recipe.header + masks_bytes + (has_palette ? entries * entry_bytes : 0) + 6;
  const unsigned row_bytes = (kWidth * recipe.bits + 31) / 32 * 4;
  BmpBytes out;
  out.number('B' + ('M' << 8U), 2);
  out.number(first + row_bytes * kHeight, 4);
  out.number(0, 4);
  out.number(first, 4);
  out.number(recipe.header, 4);
  const unsigned side = recipe.header == 12 ? 2 : 4;
  out.number(kWidth, side);
  out.number(static_cast<std::uint32_t>(recipe.top_down ? -kHeight : kHeight), side);
  out.number(1, 2);
  out.number(recipe.bits, 2);
  if (recipe.header > 12) {
    out.number(recipe.masks.empty() ? 0 : 3, 4);
    out.number(0, 12);
    out.number(recipe.colours, 4);
    out.number(0, 4);
    for (const std::uint32_t mask : recipe.masks) out.number(mask, 4);
    while (out.bytes.size() < 14 + recipe.header) out.number(0, 1);
  }
  for (unsigned i = 0; has_palette && i < entries; ++i) {
    for (std::size_t channel = 3; channel-- > 0;) out.number(palette_colour(i, channel), 1);
    if (entry_bytes == 4) out.number(0, 1);
  }
  out.number(0, 6);  // a gap, which the header declares
  CodecFile file{.what = "BMP, " + recipe.what,
                 .bytes = {},
                 .width = kWidth,
                 .height = kHeight,
                 .orientation = 1,
                 .rgb = {},
                 .values = {}};
  const std::vector<std::uint32_t> masks = !recipe.masks.empty() ? recipe.masks
                                           : recipe.bits == 16   ? std::vector<std::uint32_t>{0x7c00, 0x3e0, 0x1f}
                                                                 : std::vector<std::uint32_t>{0xff0000, 0xff00, 0xff};
  std::vector<std::vector<std::byte>> rows;
  std::vector<std::uint8_t> values;
  for (std::int32_t y = 0; y < kHeight; ++y) {
    std::vector<std::byte> row(row_bytes);
    for (std::int32_t x = 0; x < kWidth; ++x) {
      std::uint32_t pixel = 0;
      if (has_palette) {
        pixel = pattern(x, y, 0, entries - 1);
        values.push_back(static_cast<std::uint8_t>(pixel));
        for (std::size_t channel = 0; channel < 3; ++channel) file.rgb.push_back(palette_colour(pixel, channel));
      } else {
        for (std::size_t channel = 0; channel < 3; ++channel) {
          const std::uint32_t most = masks[channel] >> shift_of(masks[channel]);
          const unsigned value = pattern(x, y, static_cast<int>(channel), most);
          pixel |= value << shift_of(masks[channel]);
          file.rgb.push_back(static_cast<std::uint8_t>(std::uint64_t{value} * 255 / most));
        }
      }
      const auto at = static_cast<unsigned>(x) * recipe.bits;
      if (recipe.bits < 8) {
        row[at / 8] |= static_cast<std::byte>(pixel << (8 - recipe.bits - at % 8));
      } else {
        for (unsigned i = 0; i < recipe.bits / 8; ++i) row[at / 8 + i] = static_cast<std::byte>(pixel >> (8 * i));
      }
    }
    rows.push_back(std::move(row));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[recipe.top_down ? i : rows.size() - 1 - i];
    out.bytes.insert(out.bytes.end(), row.begin(), row.end());
  }
  file.bytes = std::move(out.bytes);
  if (has_palette) file.values = std::move(values);
  return file;
}

}  // namespace

std::vector<CodecFile> bmp_files() {
  std::vector<CodecFile> files;
  for (const unsigned bits : {1U, 4U, 8U, 16U, 24U, 32U}) {
    const std::string name = std::to_string(bits) + " bits";
    files.push_back(bmp_file({.what = name, .bits = bits}));
    files.push_back(bmp_file({.what = name + ", top-down", .bits = bits, .top_down = true}));
    for (const unsigned header : {108U, 124U}) {
      files.push_back(
          bmp_file({.what = name + ", header of " + std::to_string(header), .bits = bits, .header = header}));
    }
    if (bits != 16 && bits != 32) files.push_back(bmp_file({.what = name + ", OS/2", .bits = bits, .header = 12}));
  }
  files.push_back(bmp_file({.what = "8 bits, 40 colours", .bits = 8, .colours = 40}));
  for (const unsigned header : {40U, 56U, 124U}) {
    const std::string name = "masks, header of " + std::to_string(header);
    files.push_back(bmp_file({.what = "565, " + name, .bits = 16, .header = header, .masks = {0xf800, 0x7e0, 0x1f}}));
    files.push_back(
        bmp_file({.what = "RGBX, " + name, .bits = 32, .header = header, .masks = {0xff, 0xff00, 0xff0000}}));
  }
  return files;
}

}  // namespace forebay::testing
