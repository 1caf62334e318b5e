#pragma once

#include <png.h>
#include <csetjmp>

#include "support.hpp"

// Reads PNG files with libpng, for comparison.
namespace forebay::testing {

struct PngBytes {
  std::span<const std::byte> rest;
  std::jmp_buf escape{};
};

inline void escape_from_png(png_structp png, png_const_charp /*message*/) {
  std::longjmp(static_cast<PngBytes*>(png_get_error_ptr(png))->escape, 1);
}

inline void take_png_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto& reader = *static_cast<PngBytes*>(png_get_io_ptr(png));
  if (count > reader.rest.size()) png_error(png, "short");
  std::memcpy(to, reader.rest.data(), count);
  reader.rest = reader.rest.subspan(count);
}

enum class PngPart { header, everything };

// Whether libpng accepts the file. Its pixels go to `out`, whose size must be right.
inline bool libpng_reads(std::span<const std::byte> file, PngPart part, bool rgb, std::vector<std::uint8_t>& out) {
  PngBytes reader{.rest = file};
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, escape_from_png, [](png_structp, png_const_charp) {});
  png_infop info = png_create_info_struct(png);
  if (setjmp(reader.escape) != 0) {
    png_destroy_read_struct(&png, &info, nullptr);
    return false;
  }
  png_set_read_fn(png, &reader, take_png_bytes);
  // For the length that a text claims libpng fills memory before it reads a byte, and only warns of its limit.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, info);
  if (part == PngPart::everything) {
    if (rgb) {
      png_set_gray_to_rgb(png);
      png_set_strip_alpha(png);
    }
    png_read_update_info(png, info);
    const std::size_t row_bytes = png_get_rowbytes(png, info);
    if (row_bytes * png_get_image_height(png, info) != out.size()) png_error(png, "another shape");
    for (std::size_t y = 0; y * row_bytes < out.size(); ++y) png_read_row(png, out.data() + y * row_bytes, nullptr);
  }
  png_destroy_read_struct(&png, &info, nullptr);
  return true;
}

}  // namespace forebay::testing
