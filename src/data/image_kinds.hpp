#pragma once

#include <string_view>

// The image files beside JPEG that Forebay reads, a line for each: its name, which is that of its codec in src/make
// (codec_NAME.cpp), what people call it, and how names of such files end. Endings decide which files of a folder are
// images; what a file is decoded as is decided by its first bytes alone.
#define FOREBAY_IMAGE_KINDS(KIND)   \
  KIND(png, "PNG", ".png")          \
  KIND(webp, "WebP", ".webp")       \
  KIND(tiff, "TIFF", ".tif, .tiff") \
  KIND(npy, "npy", ".npy")

namespace forebay {

// "JPEG, PNG, ...".
#define FOREBAY_KIND_TITLE(NAME, TITLE, ENDINGS) ", " TITLE
inline constexpr std::string_view kImageKinds = "JPEG" FOREBAY_IMAGE_KINDS(FOREBAY_KIND_TITLE);
#undef FOREBAY_KIND_TITLE

// ".jpg, .jpeg, .jpe, .png, ..."; and those that are not a JPEG's.
#define FOREBAY_KIND_ENDINGS(NAME, TITLE, ENDINGS) ", " ENDINGS
inline constexpr std::string_view kImageEndings = ".jpg, .jpeg, .jpe" FOREBAY_IMAGE_KINDS(FOREBAY_KIND_ENDINGS);
inline constexpr std::string_view kOtherImageEndings = kImageEndings.substr(kImageEndings.find(".jpe, ") + 6);
#undef FOREBAY_KIND_ENDINGS

}  // namespace forebay
