#include <webp/decode.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "codec_files.hpp"

// Makes WebP files of all kinds with libwebp, each with the pixels that a decoder must return.
namespace forebay::testing {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

struct WebpRecipe {
  std::string what;
  std::int32_t width = 31;
  std::int32_t height = 17;
  bool lossless = true;
  bool alpha = false;
  int orientation = 1;
  bool exif_as_in_jpeg = false;  // preceded by the six bytes "Exif\0\0"
};

// Pixels of an image as RGBA.
std::vector<std::uint8_t> rgba_of(std::int32_t width, std::int32_t height, bool alpha) {
  std::vector<std::uint8_t> rgba;
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < width; ++x) {
      for (int channel = 0; channel < 3; ++channel)
        rgba.push_back(static_cast<std::uint8_t>(pattern(x, y, channel, 255)));
      rgba.push_back(alpha ? static_cast<std::uint8_t>(pattern(x, y, 3, 255)) : std::uint8_t{255});
    }
  }
  return rgba;
}

std::vector<std::uint8_t> without_alpha(const std::vector<std::uint8_t>& rgba) {
  std::vector<std::uint8_t> rgb;
  for (std::size_t i = 0; i < rgba.size(); i += 4)
    rgb.insert(rgb.end(), rgba.begin() + static_cast<std::ptrdiff_t>(i),
               rgba.begin() + static_cast<std::ptrdiff_t>(i) + 3);
  return rgb;
}

std::vector<std::uint8_t> encode(const WebpRecipe& recipe) {
  WebPConfig config;
  require(WebPConfigInit(&config) != 0, "WebPConfigInit");
  config.lossless = recipe.lossless ? 1 : 0;
  config.exact = 1;  // keeps colours of transparent pixels
  WebPPicture picture;
  require(WebPPictureInit(&picture) != 0, "WebPPictureInit");
  picture.width = recipe.width;
  picture.height = recipe.height;
  picture.use_argb = 1;
  const auto rgba = rgba_of(recipe.width, recipe.height, recipe.alpha);
  require(WebPPictureImportRGBA(&picture, rgba.data(), recipe.width * 4) != 0, "WebPPictureImportRGBA");
  WebPMemoryWriter writer;
  WebPMemoryWriterInit(&writer);
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &writer;
  const bool encoded = WebPEncode(&config, &picture) != 0;
  std::vector<std::uint8_t> bytes(writer.mem, writer.mem + writer.size);
  WebPPictureFree(&picture);
  WebPMemoryWriterClear(&writer);
  require(encoded, "WebPEncode");
  return bytes;
}

std::vector<std::byte> to_bytes(const std::uint8_t* bytes, std::size_t count) {
  const auto* const first = reinterpret_cast<const std::byte*>(bytes);
  return {first, first + count};
}

std::vector<std::byte> assembled(WebPMux* mux) {
  WebPData data{nullptr, 0};
  require(WebPMuxAssemble(mux, &data) == WEBP_MUX_OK, "WebPMuxAssemble");
  auto bytes = to_bytes(data.bytes, data.size);
  WebPDataClear(&data);
  WebPMuxDelete(mux);
  return bytes;
}

CodecFile webp_file(const WebpRecipe& recipe) {
  const auto image = encode(recipe);
  CodecFile file{.what = "WebP, " + recipe.what,
                 .bytes = to_bytes(image.data(), image.size()),
                 .width = recipe.width,
                 .height = recipe.height,
                 .orientation = recipe.orientation,
                 .rgb = without_alpha(rgba_of(recipe.width, recipe.height, recipe.alpha)),
                 .values = {}};
  if (!recipe.lossless) {
    file.rgb.assign(file.rgb.size(), 0);
    require(
        WebPDecodeRGBInto(image.data(), image.size(), file.rgb.data(), file.rgb.size(), recipe.width * 3) != nullptr,
        "WebPDecodeRGBInto");
  }
  if (recipe.orientation != 1) {
    auto exif = exif_of(recipe.orientation);
    if (recipe.exif_as_in_jpeg) {
      const std::string_view header("Exif\0\0", 6);
      exif.insert(exif.begin(), header.begin(), header.end());
    }
    const WebPData data{image.data(), image.size()};
    const WebPData chunk{exif.data(), exif.size()};
    WebPMux* const mux = WebPMuxCreate(&data, 1);
    require(mux != nullptr && WebPMuxSetChunk(mux, "EXIF", &chunk, 1) == WEBP_MUX_OK, "WebPMuxSetChunk");
    file.bytes = assembled(mux);
  }
  return file;
}

// Two frames, smaller than the canvas; only the first is decoded.
CodecFile animation() {
  const auto first = encode({.what = "", .width = 12, .height = 8});
  const auto second = encode({.what = "", .width = 20, .height = 10});
  WebPMux* const mux = WebPMuxNew();
  require(mux != nullptr, "WebPMuxNew");
  int number = 0;
  for (const auto* const frame : {&first, &second}) {
    const WebPMuxFrameInfo info{.bitstream = {frame->data(), frame->size()},
                                .x_offset = 6,
                                .y_offset = 4,
                                .duration = 100 + number++,
                                .id = WEBP_CHUNK_ANMF,
                                .dispose_method = WEBP_MUX_DISPOSE_NONE,
                                .blend_method = WEBP_MUX_BLEND,
                                .pad = {1}};
    require(WebPMuxPushFrame(mux, &info, 1) == WEBP_MUX_OK, "WebPMuxPushFrame");
  }
  const WebPMuxAnimParams params{.bgcolor = 0xffffffffU, .loop_count = 0};
  require(WebPMuxSetAnimationParams(mux, &params) == WEBP_MUX_OK && WebPMuxSetCanvasSize(mux, 31, 17) == WEBP_MUX_OK,
          "WebPMuxSetCanvasSize");
  CodecFile file{.what = "WebP, animation",
                 .bytes = assembled(mux),
                 .width = 31,
                 .height = 17,
                 .orientation = 1,
                 .rgb = std::vector<std::uint8_t>(std::size_t{31} * 17 * 3),
                 .values = {}};
  for (std::int32_t y = 0; y < 8; ++y) {
    for (std::int32_t x = 0; x < 12; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        file.rgb[static_cast<std::size_t>(((y + 4) * 31 + x + 6) * 3 + channel)] =
            static_cast<std::uint8_t>(pattern(x, y, channel, 255));
      }
    }
  }
  return file;
}

}  // namespace

std::vector<CodecFile> webp_files() {
  std::vector<CodecFile> files;
  for (const bool lossless : {true, false}) {
    const std::string kind = lossless ? "lossless" : "lossy";
    files.push_back(webp_file({.what = kind, .lossless = lossless}));
    files.push_back(webp_file({.what = kind + " with alpha", .lossless = lossless, .alpha = true}));
    files.push_back(webp_file({.what = kind + ", one pixel", .width = 1, .height = 1, .lossless = lossless}));
  }
  for (const int orientation : {3, 6}) {
    files.push_back(
        webp_file({.what = "orientation", .orientation = orientation, .exif_as_in_jpeg = orientation == 3}));
  }
  files.push_back(animation());
  return files;
}

std::vector<CodecFile> large_webp_files(std::int32_t side) {
  std::vector<CodecFile> files;
  for (const bool lossless : {false, true}) {
    const std::string what = lossless ? "lossless" : "lossy";
    files.push_back(
        webp_file({.what = what + " with alpha", .width = side, .height = side, .lossless = lossless, .alpha = true}));
  }
  files.push_back(webp_file(
      {.what = "lossless with alpha, turned", .width = side, .height = side, .alpha = true, .orientation = 6}));
  return files;
}

}  // namespace forebay::testing
