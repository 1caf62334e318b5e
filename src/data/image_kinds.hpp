#pragma once

#include <string_view>

// The kinds of image files other than JPEG that Forebay reads, one line each: the name, which is also that of its codec
// in src/make (codec_NAME.cpp), the title, and the file name endings. Endings decide which files of a folder are
// images; the first bytes alone decide how a file is decoded.
#define FOREBAY_IMAGE_KINDS(KIND)   \
  KIND(png, "PNG", ".png")          \
  KIND(webp, "WebP", ".webp")       \
  KIND(tiff, "TIFF", ".tif, .tiff") \
  KIND(npy, "npy", ".npy")          \
  KIND(bmp, "BMP", ".bmp")          \
  KIND(pnm, "PPM", ".ppm, .pgm, .pbm, .pnm")

namespace forebay::data {

// "JPEG, PNG, ...".
#define FOREBAY_KIND_TITLE(NAME, TITLE, ENDINGS) ", " TITLE
inline constexpr std::string_view kImageKinds = "JPEG" FOREBAY_IMAGE_KINDS(FOREBAY_KIND_TITLE);
#undef FOREBAY_KIND_TITLE

// ".jpg, .jpeg, .jpe, .jfif, .png, ...", and the same without JPEG's endings.
#define FOREBAY_KIND_ENDINGS(NAME, TITLE, ENDINGS) ", " ENDINGS
inline constexpr std::string_view kImageEndings = ".jpg, .jpeg, .jpe, .jfif" FOREBAY_IMAGE_KINDS(FOREBAY_KIND_ENDINGS);
inline constexpr std::string_view kOtherImageEndings = kImageEndings.substr(kImageEndings.find(".jfif, ") + 7);
#undef FOREBAY_KIND_ENDINGS
// The endings of videos.
inline constexpr std::string_view kVideoEndings = ".mp4, .m4v, .mov, .mkv, .webm, .avi";

}  // namespace forebay::data
