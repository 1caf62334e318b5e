#include <png.h>
#include <zlib.h>

#include <array>
#include <stdexcept>
#include <string>

#include "codec_files.hpp"

// Makes PNG files of all kinds with libpng, each with the pixels that a decoder must return.
namespace forebay::testing {
namespace {

struct PngRecipe {
  std::string what;
  std::int32_t width = 31;
  std::int32_t height = 17;
  int colours = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  bool interlaced = false;
  bool transparent = false;  // a tRNS chunk
  int orientation = 1;
  bool texts = false;  // and an unintelligible colour profile
};

int channels_of(int colours) {
  switch (colours) {
    case PNG_COLOR_TYPE_GRAY:
    case PNG_COLOR_TYPE_PALETTE: return 1;
    case PNG_COLOR_TYPE_GRAY_ALPHA: return 2;
    case PNG_COLOR_TYPE_RGB: return 3;
    default: return 4;
  }
}

std::array<std::uint8_t, 3> palette_colour(unsigned index) {
  return {static_cast<std::uint8_t>(index * 5), static_cast<std::uint8_t>(255 - index),
          static_cast<std::uint8_t>(index * 31)};
}

void put_chunks_before_pixels(png_structp png, png_infop info, const PngRecipe& recipe) {
  const auto most = (1U << static_cast<unsigned>(recipe.bits)) - 1;
  if (recipe.colours == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette(most + 1);
    for (unsigned i = 0; i <= most; ++i) {
      const auto [red, green, blue] = palette_colour(i);
      palette[i] = {red, green, blue};
    }
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  }
  if (recipe.transparent) {
    std::array<png_byte, 2> alphas{0, 128};
    png_color_16 colour{};
    colour.gray = colour.red = 1;
    png_set_tRNS(png, info, alphas.data(), recipe.colours == PNG_COLOR_TYPE_PALETTE ? 2 : 0, &colour);
  }
  if (recipe.orientation != 1) {
    auto exif = exif_of(recipe.orientation);
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()), exif.data());
  }
  if (recipe.texts) {
    std::string key = "Comment";
    std::string text(100'000, 'x');
    std::array<png_text, 2> texts{};
    for (auto& one : texts) {
      one.compression = PNG_TEXT_COMPRESSION_zTXt;
      one.key = key.data();
      one.text = text.data();
      one.text_length = text.size();
    }
    png_set_text(png, info, texts.data(), static_cast<int>(texts.size()));
    png_set_gAMA(png, info, 1.0);
  }
}

// One row, packed as in PNG.
std::vector<png_byte> row_of(const PngRecipe& recipe, std::int32_t y) {
  const int channels = channels_of(recipe.colours);
  const auto bits = static_cast<unsigned>(recipe.bits);
  const unsigned most = (1U << bits) - 1;
  std::vector<png_byte> row((static_cast<std::size_t>(recipe.width * channels) * bits + 7) / 8);
  std::size_t at = 0;  // bit
  for (std::int32_t x = 0; x < recipe.width; ++x) {
    for (int channel = 0; channel < channels; ++channel, at += bits) {
      const unsigned value = pattern(x, y, channel, most);
      if (bits == 16) {
        row[at / 8] = static_cast<png_byte>(value >> 8U);
        row[at / 8 + 1] = static_cast<png_byte>(value);
      } else {
        row[at / 8] = static_cast<png_byte>(row[at / 8] | value << (8 - bits - at % 8));
      }
    }
  }
  return row;
}

std::vector<std::byte> write_png(const PngRecipe& recipe) {
  std::vector<std::byte> bytes;
  png_structp png = png_create_write_struct(
      PNG_LIBPNG_VER_STRING, nullptr, [](png_structp, png_const_charp message) { throw std::runtime_error(message); },
      nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp self, png_bytep from, std::size_t count) {
        auto& to = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(self));
        const auto* const first = reinterpret_cast<const std::byte*>(from);
        to.insert(to.end(), first, first + count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(recipe.width), static_cast<png_uint_32>(recipe.height), recipe.bits,
               recipe.colours, recipe.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  put_chunks_before_pixels(png, info, recipe);
  png_write_info(png, info);
  std::vector<std::vector<png_byte>> rows;
  for (std::int32_t y = 0; y < recipe.height; ++y) rows.push_back(row_of(recipe, y));
  std::vector<png_bytep> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

std::uint32_t big_endian_at(const std::vector<std::byte>& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8U | std::to_integer<std::uint32_t>(bytes[at + i]);
  return number;
}

// Recomputes the checksums of all chunks.
void repair_png(std::vector<std::byte>& bytes) {
  constexpr std::size_t kSignature = 8;
  constexpr std::size_t kAround = 12;  // length, name, checksum
  for (std::size_t at = kSignature; bytes.size() - at >= kAround;) {
    const std::size_t length = big_endian_at(bytes, at);
    if (length > bytes.size() - at - kAround) return;
    const auto* const name = reinterpret_cast<const Bytef*>(bytes.data() + at + 4);
    const auto sum = crc32(0, name, static_cast<uInt>(length + 4));
    for (std::size_t i = 0; i < 4; ++i) bytes[at + 8 + length + i] = static_cast<std::byte>(sum >> (24 - 8 * i));
    at += kAround + length;
  }
}

CodecFile png_file(const PngRecipe& recipe) {
  CodecFile file{.what = "PNG, " + recipe.what,
                 .bytes = write_png(recipe),
                 .width = recipe.width,
                 .height = recipe.height,
                 .orientation = recipe.orientation,
                 .rgb = {},
                 .values = {},
                 .repair = repair_png};
  const auto bits = static_cast<unsigned>(recipe.bits);
  const unsigned most = (1U << bits) - 1;
  const auto to_8_bits = [&](unsigned value) {
    return static_cast<std::uint8_t>(bits == 16 ? value >> 8U : value * 255 / most);
  };
  const bool is_grey = (recipe.colours & PNG_COLOR_MASK_COLOR) == 0;
  const bool is_palette = recipe.colours == PNG_COLOR_TYPE_PALETTE;
  std::vector<std::uint8_t> values;
  for (std::int32_t y = 0; y < recipe.height; ++y) {
    for (std::int32_t x = 0; x < recipe.width; ++x) {
      const unsigned first = pattern(x, y, 0, most);
      values.push_back(static_cast<std::uint8_t>(first));
      for (int channel = 0; channel < 3; ++channel) {
        if (bits == 16 && (channel == 0 || !is_grey)) {
          file.wide.push_back(static_cast<float>(pattern(x, y, channel, most)));
        }
        file.rgb.push_back(is_palette ? palette_colour(first)[static_cast<std::size_t>(channel)]
                                      : to_8_bits(pattern(x, y, is_grey ? 0 : channel, most)));
      }
    }
  }
  if (channels_of(recipe.colours) == 1 && bits <= 8) file.values = std::move(values);
  return file;
}

}  // namespace

std::vector<CodecFile> png_files() {
  std::vector<CodecFile> files;
  const auto add = [&](const std::string& what, int colours, std::initializer_list<int> depths) {
    for (const int bits : depths) {
      const std::string name = std::to_string(bits) + "-bit " + what;
      files.push_back(png_file({.what = name, .colours = colours, .bits = bits}));
      files.push_back(png_file({.what = name + ", interlaced", .colours = colours, .bits = bits, .interlaced = true}));
      if ((colours & PNG_COLOR_MASK_ALPHA) != 0) continue;
      files.push_back(png_file({.what = name + ", tRNS", .colours = colours, .bits = bits, .transparent = true}));
    }
  };
  add("grey", PNG_COLOR_TYPE_GRAY, {1, 2, 4, 8, 16});
  add("palette", PNG_COLOR_TYPE_PALETTE, {1, 2, 4, 8});
  add("grey with alpha", PNG_COLOR_TYPE_GRAY_ALPHA, {8, 16});
  add("RGB", PNG_COLOR_TYPE_RGB, {8, 16});
  add("RGBA", PNG_COLOR_TYPE_RGB_ALPHA, {8, 16});
  files.push_back(png_file({.what = "one pixel", .width = 1, .height = 1}));
  files.push_back(png_file({.what = "one column", .width = 1, .height = 40, .interlaced = true}));
  files.push_back(png_file({.what = "texts", .texts = true}));
  for (const int orientation : {2, 3, 6, 8}) {
    const auto what = "orientation " + std::to_string(orientation);
    files.push_back(png_file({.what = what, .orientation = orientation}));
  }
  return files;
}

std::vector<CodecFile> large_png_files(std::int32_t side) {
  std::vector<CodecFile> files;
  const auto add = [&](PngRecipe recipe) {
    recipe.width = recipe.height = side;
    files.push_back(png_file(recipe));
  };
  add({.what = "RGB"});
  add({.what = "RGBA", .colours = PNG_COLOR_TYPE_RGB_ALPHA});
  add({.what = "16-bit RGBA, interlaced", .colours = PNG_COLOR_TYPE_RGB_ALPHA, .bits = 16, .interlaced = true});
  add({.what = "palette", .colours = PNG_COLOR_TYPE_PALETTE});
  add({.what = "RGBA, turned", .colours = PNG_COLOR_TYPE_RGB_ALPHA, .orientation = 6});
  return files;
}

}  // namespace forebay::testing
