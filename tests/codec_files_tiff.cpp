#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

#include "codec_files.hpp"

// Makes TIFF files of all kinds with libtiff, each with the pixels that a decoder must return.
namespace forebay::testing {
namespace {

struct TiffRecipe {
  std::string what = {};
  std::int32_t width = 31;
  std::int32_t height = 17;
  int photometric = PHOTOMETRIC_RGB;
  int bits = 8;
  int samples = 3;
  int compression = COMPRESSION_NONE;
  bool separate = false;
  bool tiled = false;
  int alpha = -1;  // EXTRASAMPLE_...; -1 = none
  int before = 0;  // unspecified samples between colours and alpha, and after it
  int behind = 0;
  int orientation = 1;
  const char* mode = "w";  // "wb": big-endian, "w8": BigTIFF
  bool flat = false;       // a single colour, which lossy compression preserves
  int predictor = 1;
};

struct Memory {
  std::vector<std::byte> bytes;
  std::size_t at = 0;
};

TIFF* open_in(Memory& memory, const char* mode) {
  const auto of = [](thandle_t handle) -> Memory& { return *static_cast<Memory*>(handle); };
  static const auto memory_of = of;
  return TIFFClientOpen(
      "memory", mode, &memory,
      [](thandle_t handle, void* to, tmsize_t count) -> tmsize_t {
        Memory& self = memory_of(handle);
        const std::size_t rest = self.at < self.bytes.size() ? self.bytes.size() - self.at : 0;
        const std::size_t some = std::min(rest, static_cast<std::size_t>(count));
        std::memcpy(to, self.bytes.data() + self.at, some);
        self.at += some;
        return static_cast<tmsize_t>(some);
      },
      [](thandle_t handle, void* from, tmsize_t count) -> tmsize_t {
        Memory& self = memory_of(handle);
        self.bytes.resize(std::max(self.bytes.size(), self.at + static_cast<std::size_t>(count)));
        std::memcpy(self.bytes.data() + self.at, from, static_cast<std::size_t>(count));
        self.at += static_cast<std::size_t>(count);
        return count;
      },
      [](thandle_t handle, toff_t offset, int from) -> toff_t {
        Memory& self = memory_of(handle);
        self.at = from == SEEK_CUR ? self.at + offset : from == SEEK_END ? self.bytes.size() + offset : offset;
        return self.at;
      },
      [](thandle_t) { return 0; }, [](thandle_t handle) -> toff_t { return memory_of(handle).bytes.size(); }, nullptr,
      nullptr);
}

unsigned most_of(const TiffRecipe& recipe) { return (1U << static_cast<unsigned>(recipe.bits)) - 1; }

unsigned value_at(const TiffRecipe& recipe, std::int32_t x, std::int32_t y, int channel) {
  return recipe.flat ? 100U : pattern(x, y, channel, most_of(recipe));
}

std::uint16_t palette_entry(unsigned index, int channel) {
  return static_cast<std::uint16_t>(index * 257 + static_cast<unsigned>(channel) * 20011 + index * index * 7);
}

// Samples of one row from `left` on, packed as in TIFF: those of one plane, or of all.
std::vector<std::uint8_t> packed(const TiffRecipe& recipe, std::int32_t left, std::int32_t count, std::int32_t y,
                                 int plane) {
  const int first = recipe.separate ? plane : 0;
  const int channels = recipe.separate ? 1 : recipe.samples;
  const auto bits = static_cast<unsigned>(recipe.bits);
  std::vector<std::uint8_t> row((static_cast<std::size_t>(count * channels) * bits + 7) / 8);
  std::size_t at = 0;  // bit
  for (std::int32_t x = left; x < left + count; ++x) {
    for (int channel = first; channel < first + channels; ++channel, at += bits) {
      const bool inside = x < recipe.width && y < recipe.height;
      const auto value = inside ? static_cast<std::uint16_t>(value_at(recipe, x, y, channel)) : std::uint16_t{0};
      if (bits == 16) {
        std::memcpy(row.data() + at / 8, &value, 2);
      } else {
        row[at / 8] = static_cast<std::uint8_t>(row[at / 8] | unsigned{value} << (8 - bits - at % 8));
      }
    }
  }
  return row;
}

void require(bool holds, const TiffRecipe& recipe) {
  if (!holds) throw std::runtime_error("libtiff does not write: " + recipe.what);
}

void set_fields(TIFF* tiff, const TiffRecipe& recipe) {
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, recipe.width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, recipe.height);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, recipe.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, recipe.samples);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, recipe.photometric);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, recipe.compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, recipe.separate ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  TIFFSetField(tiff, TIFFTAG_ORIENTATION, recipe.orientation);
  if (recipe.predictor != 1) TIFFSetField(tiff, TIFFTAG_PREDICTOR, recipe.predictor);
  if (recipe.alpha >= 0) {
    std::vector<std::uint16_t> kinds(static_cast<std::size_t>(recipe.before + 1 + recipe.behind));
    kinds[static_cast<std::size_t>(recipe.before)] = static_cast<std::uint16_t>(recipe.alpha);
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, static_cast<int>(kinds.size()), kinds.data());
  }
  if (recipe.photometric == PHOTOMETRIC_PALETTE) {
    std::array<std::vector<std::uint16_t>, 3> maps;
    for (int channel = 0; channel < 3; ++channel) {
      for (unsigned i = 0; i <= most_of(recipe); ++i)
        maps[static_cast<std::size_t>(channel)].push_back(palette_entry(i, channel));
    }
    TIFFSetField(tiff, TIFFTAG_COLORMAP, maps[0].data(), maps[1].data(), maps[2].data());
  }
  if (recipe.compression == COMPRESSION_JPEG) {
    TIFFSetField(tiff, TIFFTAG_JPEGQUALITY, 100);
    TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  }
  if (recipe.tiled) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, 16);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, 16);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 16);
  }
}

void write_planes(TIFF* tiff, const TiffRecipe& recipe) {
  for (int plane = 0; plane < (recipe.separate ? recipe.samples : 1); ++plane) {
    const auto number = static_cast<std::uint16_t>(plane);
    if (!recipe.tiled) {
      for (std::int32_t y = 0; y < recipe.height; ++y) {
        auto row = packed(recipe, 0, recipe.width, y, plane);
        require(TIFFWriteScanline(tiff, row.data(), static_cast<std::uint32_t>(y), number) == 1, recipe);
      }
      continue;
    }
    for (std::int32_t top = 0; top < recipe.height; top += 16) {
      for (std::int32_t left = 0; left < recipe.width; left += 16) {
        std::vector<std::uint8_t> tile;
        for (std::int32_t y = top; y < top + 16; ++y) {
          const auto row = packed(recipe, left, 16, y, plane);
          tile.insert(tile.end(), row.begin(), row.end());
        }
        require(TIFFWriteTile(tiff, tile.data(), static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(top), 0,
                              number) > 0,
                recipe);
      }
    }
  }
}

std::array<std::uint8_t, 3> expected_pixel(const TiffRecipe& recipe, std::int32_t x, std::int32_t y) {
  const unsigned most = most_of(recipe);
  const auto value = [&](int channel) {
    const unsigned stored = value_at(recipe, x, y, channel);
    return recipe.bits == 16 ? stored >> 8U : stored;
  };
  const bool is_premultiplied = recipe.alpha == EXTRASAMPLE_ASSOCALPHA;
  const auto divided = [&](unsigned colour, int colours) {
    const unsigned alpha = is_premultiplied ? value(colours + recipe.before) : 255;
    return alpha == 0 ? 0 : std::min(255U, colour * 255 / alpha);
  };
  std::array<std::uint8_t, 3> pixel{};
  for (int channel = 0; channel < 3; ++channel) {
    unsigned colour = 0;
    switch (recipe.photometric) {
      case PHOTOMETRIC_MINISWHITE: colour = recipe.bits == 16 ? 255 - value(0) : 255 - value(0) * 255 / most; break;
      case PHOTOMETRIC_MINISBLACK:
        colour = recipe.bits == 16 ? value(0) : value(0) * 255 / most;
        colour = divided(colour, 1);
        break;
      case PHOTOMETRIC_PALETTE: colour = palette_entry(value(0), channel) >> 8U; break;
      case PHOTOMETRIC_SEPARATED: {
        const unsigned light = 255 - value(3);
        colour = light - (value(channel) * light + 127) / 255;  // rounds to nearest
        break;
      }
      default: colour = divided(value(channel), 3); break;
    }
    pixel[static_cast<std::size_t>(channel)] = static_cast<std::uint8_t>(colour);
  }
  return pixel;
}

CodecFile tiff_file(const TiffRecipe& recipe) {
  Memory memory;
  TIFF* const tiff = open_in(memory, recipe.mode);
  require(tiff != nullptr, recipe);
  set_fields(tiff, recipe);
  write_planes(tiff, recipe);
  TIFFClose(tiff);
  CodecFile file{.what = "TIFF, " + recipe.what,
                 .bytes = std::move(memory.bytes),
                 .width = recipe.width,
                 .height = recipe.height,
                 .orientation = recipe.orientation,
                 .rgb = {},
                 .values = {}};
  std::vector<std::uint8_t> values;
  for (std::int32_t y = 0; y < recipe.height; ++y) {
    for (std::int32_t x = 0; x < recipe.width; ++x) {
      const auto pixel = expected_pixel(recipe, x, y);
      file.rgb.insert(file.rgb.end(), pixel.begin(), pixel.end());
      const unsigned first = value_at(recipe, x, y, 0);
      const bool is_inverted = recipe.photometric == PHOTOMETRIC_MINISWHITE;
      values.push_back(static_cast<std::uint8_t>(is_inverted ? most_of(recipe) - first : first));
      const bool is_wide =
          recipe.bits == 16 && recipe.photometric != PHOTOMETRIC_SEPARATED && recipe.alpha != EXTRASAMPLE_ASSOCALPHA;
      for (int channel = 0; is_wide && channel < (recipe.photometric == PHOTOMETRIC_RGB ? 3 : 1); ++channel) {
        const unsigned value = value_at(recipe, x, y, channel);
        file.wide.push_back(static_cast<float>(recipe.photometric == PHOTOMETRIC_MINISWHITE ? 65535 - value : value));
      }
    }
  }
  if (recipe.samples == 1 && recipe.bits <= 8) file.values = std::move(values);
  return file;
}

}  // namespace

std::vector<CodecFile> tiff_files() {
  std::vector<CodecFile> files;
  const auto add = [&](const std::string& what, TiffRecipe recipe) {
    recipe.what = what;
    files.push_back(tiff_file(recipe));
  };
  for (const bool tiled : {false, true}) {
    for (const int bits : {1, 2, 4, 8, 16}) {
      const auto add_one = [&](const std::string& what, TiffRecipe recipe) {
        recipe.bits = bits;
        recipe.tiled = tiled;
        add(std::to_string(bits) + "-bit " + what + (tiled ? ", tiles" : ", strips") +
                (recipe.separate ? ", planes" : ""),
            recipe);
      };
      add_one("grey", {.photometric = PHOTOMETRIC_MINISBLACK, .samples = 1});
      add_one("grey, white is 0", {.photometric = PHOTOMETRIC_MINISWHITE, .samples = 1});
      if (bits <= 8) add_one("palette", {.photometric = PHOTOMETRIC_PALETTE, .samples = 1});
      if (bits < 8) continue;
      for (const bool separate : {false, true}) {
        add_one("RGB", {.separate = separate});
        add_one("RGBA", {.samples = 4, .separate = separate, .alpha = EXTRASAMPLE_UNASSALPHA});
        add_one("RGBA, premultiplied", {.samples = 4, .separate = separate, .alpha = EXTRASAMPLE_ASSOCALPHA});
        add_one("CMYK", {.photometric = PHOTOMETRIC_SEPARATED, .samples = 4, .separate = separate});
      }
    }
  }
  add("grey with alpha", {.photometric = PHOTOMETRIC_MINISBLACK, .samples = 2, .alpha = EXTRASAMPLE_UNASSALPHA});
  add("grey with alpha, premultiplied",
      {.photometric = PHOTOMETRIC_MINISBLACK, .samples = 2, .alpha = EXTRASAMPLE_ASSOCALPHA});
  for (const bool separate : {false, true}) {
    const TiffRecipe five{.samples = 5, .separate = separate, .alpha = EXTRASAMPLE_ASSOCALPHA};
    TiffRecipe behind = five;
    behind.behind = 1;
    add("RGBA, premultiplied, and a fifth sample", behind);
    TiffRecipe before = five;
    before.before = 1;
    add("RGB, a fourth sample, and premultiplied alpha", before);
  }
  add("LZW with predictor", {.compression = COMPRESSION_LZW, .predictor = 2});
  add("16-bit LZW with predictor, big-endian",
      {.bits = 16, .compression = COMPRESSION_LZW, .mode = "wb", .predictor = 2});
  add("Deflate", {.compression = COMPRESSION_ADOBE_DEFLATE});
  add("PackBits", {.compression = COMPRESSION_PACKBITS});
  add("fax", {.photometric = PHOTOMETRIC_MINISWHITE, .bits = 1, .samples = 1, .compression = COMPRESSION_CCITTFAX4});
  TiffRecipe jpeg{.width = 32, .height = 16, .photometric = PHOTOMETRIC_YCBCR, .compression = COMPRESSION_JPEG};
  jpeg.flat = true;
  add("JPEG", jpeg);
  jpeg.photometric = PHOTOMETRIC_MINISBLACK;
  jpeg.samples = 1;
  add("grey JPEG", jpeg);
  add("big-endian 16-bit RGB", {.bits = 16, .mode = "wb"});
  add("BigTIFF", {.mode = "w8"});
  add("one pixel", {.width = 1, .height = 1});
  for (const int orientation : {2, 3, 6, 8}) {
    add("orientation " + std::to_string(orientation), {.orientation = orientation});
  }
  return files;
}

std::vector<CodecFile> large_tiff_files(std::int32_t side) {
  const TiffRecipe plain{.what = "RGB", .width = side, .height = side};
  std::vector<TiffRecipe> recipes(4, plain);
  recipes[1].what = "ink, turned";
  recipes[1].photometric = PHOTOMETRIC_SEPARATED;
  recipes[1].samples = 4;
  recipes[1].orientation = 6;
  recipes[2].what = "RGB, two samples, and premultiplied alpha, turned";
  recipes[2].samples = 6;
  recipes[2].alpha = EXTRASAMPLE_ASSOCALPHA;
  recipes[2].before = 2;
  recipes[2].orientation = 6;
  recipes[3].what = "tiles";
  recipes[3].tiled = true;
  std::vector<CodecFile> files;
  for (const TiffRecipe& recipe : recipes) files.push_back(tiff_file(recipe));
  return files;
}

}  // namespace forebay::testing
