#include <doctest/doctest.h>

#include <malloc.h>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "codec_files.hpp"
#include "jpeg_support.hpp"
#include "make/image_decoder.hpp"
#include "support.hpp"

// What decoders take for images of all kinds, against what a run says when it starts.
namespace {

using forebay::Image;
using forebay::ImageDecoder;
using forebay::testing::CodecFile;
using forebay::testing::exif_segment;
using forebay::testing::make_jpeg;
using forebay::testing::Recipe;

// The most memory that the process had beyond what it has now, while `work` ran; none where the kernel does not say.
template <typename Work>
std::optional<std::size_t> peak_of(const Work& work) {
  const auto kibibytes = [](std::string_view name) {
    std::ifstream in("/proc/self/status");
    std::string word;
    std::size_t value = 0;
    while (in >> word) {
      if (word == name && in >> value) return value;
    }
    return std::size_t{0};
  };
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak is what is there now
  const std::size_t before = kibibytes("VmRSS:");
  if (before == 0 || kibibytes("VmHWM:") > before + 64) return std::nullopt;
  work();
  return (kibibytes("VmHWM:") - before) * 1024;
}

}  // namespace

TEST_CASE("no image takes more memory for a pixel than the start-up line says" *
          doctest::skip(forebay::testing::kSanitized)) {
  constexpr std::int32_t kSide = 1200;
  auto files = forebay::testing::large_png_files(kSide);
  for (auto&& more : {forebay::testing::large_webp_files(kSide), forebay::testing::large_tiff_files(kSide)}) {
    files.insert(files.end(), more.begin(), more.end());
  }
  const auto add_jpeg = [&files](std::string what, const Recipe& recipe) {
    CodecFile& file = files.emplace_back();
    file.what = "JPEG, " + std::move(what);
    file.bytes = make_jpeg(recipe);
  };
  add_jpeg("ordinary", {.width = kSide, .height = kSide});
  add_jpeg("scans of their own", {.width = kSide, .height = kSide, .subsampled = false, .separate_scans = true});
  add_jpeg("progressive ink", {.width = kSide,
                               .height = kSide,
                               .input = JCS_CMYK,
                               .stored = JCS_CMYK,
                               .components = 4,
                               .subsampled = false,
                               .progressive = true});
  add_jpeg("ordinary, turned", {.width = kSide, .height = kSide, .app1 = exif_segment(6)});
  for (const CodecFile& file : files) {
    CAPTURE(file.what);
    const auto peak = peak_of([&file] {
      ImageDecoder decoder;
      Image image;
      const auto size = decoder.open(file.bytes, {});
      decoder.decode({0, 0, size.width, size.height}, 1, image);
    });
    if (!peak) return;  // the kernel does not say
    const double per_pixel = static_cast<double>(*peak) / (kSide * kSide);
    CAPTURE(per_pixel);
    constexpr double kFew = 0.5;  // a few hundred kB of libraries' own, and rows
    const bool is_ordinary = file.what.starts_with("JPEG, ordinary");
    const double most = is_ordinary ? ImageDecoder::kBytesPerPixel : ImageDecoder::kMostBytesPerPixel;
    CHECK(per_pixel <= most + kFew);
  }
}
