// What every codec promises, checked with files of all of them.
#include <malloc.h>
#include <random>

#include "base/file_io.hpp"
#include "codec_files.hpp"
#include "data/image_size.hpp"
#include "jpeg_support.hpp"
#include "make/image_decoder.hpp"
#include "test.hpp"

using namespace forebay::make;

namespace forebay {
namespace {

using namespace forebay::testing;
using namespace std::string_view_literals;

// Damaged headers may claim large images, which a test need not decode.
constexpr ImageOptions kBounded{.exif = false, .max_pixels = 1'000'000};

std::vector<std::uint8_t> pixels_of(const Image& image) {
  const auto count = static_cast<std::ptrdiff_t>(image.width) * image.height * 3;
  return {image.pixels.begin(), image.pixels.begin() + count};
}

void decode_whole(ImageDecoder& decoder, std::span<const std::byte> bytes, const ImageOptions& options, Image& image) {
  const ImageSize size = decoder.open(bytes, options);
  decoder.decode({0, 0, size.width, size.height}, 1, image);
}

// The message with which it is refused; nothing if it is decoded.
std::optional<std::string> refusal(ImageDecoder& decoder, std::span<const std::byte> bytes, const ImageOptions& options,
                                   Image& image) {
  try {
    decode_whole(decoder, bytes, options, image);
    return std::nullopt;
  } catch (const SampleError& error) {
    return error.what();
  }
}

std::vector<std::uint8_t> pixel(const std::vector<std::uint8_t>& rgb, std::int32_t width, std::int32_t x,
                                std::int32_t y) {
  const auto at = rgb.begin() + 3 * (static_cast<std::ptrdiff_t>(y) * width + x);
  return {at, at + 3};
}

TEST_CASE("every codec decodes what its library wrote") {
  ImageDecoder decoder;
  Image image;
  for (const CodecFile& file : codec_files()) {
    CAPTURE(file.what);
    const ImageSize size = decoder.open(file.bytes, {.exif = false});
    REQUIRE(size.width == file.width);
    REQUIRE(size.height == file.height);
    decoder.decode({0, 0, size.width, size.height}, 1, image);
    REQUIRE(image.width == file.width);
    REQUIRE(image.height == file.height);
    CHECK(pixels_of(image) == file.rgb);
  }
}

// 40 x 20 grey pixels with an orientation. `type` is the field type of width and height; tags are
// out of order, and two are repeated with another value.
std::vector<std::byte> odd_tiff(bool is_big_endian, unsigned type) {
  std::vector<std::byte> bytes;
  const auto add = [&](unsigned value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) {
      bytes.push_back(static_cast<std::byte>(value >> 8 * (is_big_endian ? size - 1 - i : i)));
    }
  };
  const auto entry = [&](unsigned tag, unsigned of_type, unsigned value) {
    const unsigned size = of_type == 3 || of_type == 8 ? 2 : 4;
    for (const unsigned number : {tag, of_type}) add(number, 2);
    add(1, 4);
    add(value, size);
    add(0, 4 - size);
  };
  bytes.assign(2, std::byte{is_big_endian ? std::uint8_t{'M'} : std::uint8_t{'I'}});
  add(42, 2);
  add(808, 4);
  bytes.resize(808);
  add(12, 2);
  for (const auto& [tag, value] :
       {std::pair{258U, 8U}, {259U, 1U}, {262U, 1U}, {277U, 1U}, {278U, 20U}, {279U, 800U}}) {
    entry(tag, 3, value);
  }
  for (const auto& [tag, value] : {std::pair{256U, 40U}, {257U, 20U}, {256U, 4U}, {257U, 5U}}) entry(tag, type, value);
  entry(274, 3, 6);
  entry(273, 3, 8);
  add(0, 4);
  return bytes;
}

TEST_CASE("a header alone says the size that the decoder finds, also where bytes are damaged") {
  const forebay::testing::TemporaryDirectory folder;
  const std::string path = (folder / "x").string();
  ImageDecoder decoder;
  const auto compare = [&](std::span<const std::byte> bytes) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    try {
      const ImageSize size = decoder.open(bytes, {});
      const forebay::data::ImageExtent said = forebay::data::displayed_size(forebay::open_regular(path));
      CHECK(said.width == size.width);
      CHECK(said.height == size.height);
      return true;
    } catch (const SampleError&) {
      return false;
    }
  };
  Random random = testing::random_from(std::random_device{}());
  for (CodecFile file : codec_files()) {
    CAPTURE(file.what);
    CHECK(compare(file.bytes));
    for (int round = 0; round < (forebay::testing::kSanitized ? 5 : 30); ++round) {
      std::vector<std::byte> bytes = file.bytes;
      bytes[random.below(std::min<std::size_t>(bytes.size(), 64))] = static_cast<std::byte>(random.below(256));
      if (file.repair != nullptr) file.repair(bytes);
      CAPTURE(round);
      (void)compare(bytes);
    }
  }
  for (CodecFile file : png_files()) {
    if (file.orientation == 1) continue;
    constexpr std::array kExif{std::byte{'e'}, std::byte{'X'}, std::byte{'I'}, std::byte{'f'}};
    *(std::ranges::search(file.bytes, kExif).end() + std::ssize(exif_of(1))) ^= std::byte{1};  // the chunk's checksum
    CHECK(compare(file.bytes));
  }
  for (CodecFile file : webp_files()) {
    if (file.orientation == 1) continue;
    constexpr std::array kExif{std::byte{'E'}, std::byte{'X'}, std::byte{'I'}, std::byte{'F'}};
    const auto riff = std::ranges::search(file.bytes, kExif).begin() - file.bytes.begin() - 8;  // truncated before it
    for (unsigned i = 0; i < 4; ++i) file.bytes[4 + i] = static_cast<std::byte>(riff >> 8 * i);
    CHECK(compare(file.bytes));
  }
  for (const bool is_big_endian : {false, true}) {
    for (const unsigned type : {3U, 8U, 4U, 9U})
      CHECK((compare(odd_tiff(is_big_endian, type)) || tiff_files().empty()));
  }
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::vector<std::uint8_t> exif = forebay::testing::exif_of(orientation);
    std::vector<std::byte> bytes{std::byte{0xFF}, std::byte{0xD8}, std::byte{0xFF}, std::byte{0xE1}};
    const auto add = [&](unsigned byte) { bytes.push_back(static_cast<std::byte>(byte)); };
    add(0);
    add(static_cast<unsigned>(exif.size() + 8));
    for (const char c : "Exif\0\0"sv) add(static_cast<unsigned char>(c));
    for (const std::uint8_t byte : exif) add(byte);
    for (const unsigned byte : {0xFFU, 0xC0U, 0U, 11U, 8U, 0U, 20U, 0U, 40U, 1U, 1U, 0x11U, 0U, 0xFFU, 0xDAU})
      add(byte);
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    const forebay::data::ImageExtent said = forebay::data::displayed_size(forebay::open_regular(path));
    CHECK(said.width == (orientation >= 5 ? 20 : 40));
    CHECK(said.height == (orientation >= 5 ? 40 : 20));
  }
}

TEST_CASE("every codec gives the region that is asked for") {
  ImageDecoder decoder;
  Image whole;
  Image part;
  for (const CodecFile& file : codec_files()) {
    CAPTURE(file.what);
    decode_whole(decoder, file.bytes, {}, whole);
    const auto pixels = pixels_of(whole);
    const Box region{whole.width / 3, whole.height / 4, whole.width / 3 + (whole.width + 1) / 2,
                     whole.height / 4 + (whole.height + 1) / 2};
    (void)decoder.open(file.bytes, {});
    decoder.decode(region, 1, part);
    const Box place = part.place_of(region);
    REQUIRE(place.width() == region.width());
    REQUIRE(place.height() == region.height());
    for (std::int32_t y = 0; y < region.height(); ++y) {
      const auto row = static_cast<std::ptrdiff_t>(region.top + y) * whole.width + region.left;
      const auto* const given = part.row(place.top + y) + 3 * static_cast<std::ptrdiff_t>(place.left);
      REQUIRE(std::equal(given, given + 3 * region.width(), pixels.begin() + 3 * row));
    }
  }
}

TEST_CASE("every codec honours the orientation that EXIF data state, where transform.exif says so") {
  ImageDecoder decoder;
  Image image;
  int turned = 0;
  for (const CodecFile& file : codec_files()) {
    if (file.orientation == 1) continue;
    ++turned;
    CAPTURE(file.what);
    decode_whole(decoder, file.bytes, {.exif = true}, image);
    const bool swaps = file.orientation >= 5;
    REQUIRE(image.width == (swaps ? file.height : file.width));
    REQUIRE(image.height == (swaps ? file.width : file.height));
    const auto pixels = pixels_of(image);
    const std::int32_t right = file.width - 1;
    const std::int32_t bottom = file.height - 1;
    for (std::int32_t y = 0; y < image.height; ++y) {
      for (std::int32_t x = 0; x < image.width; ++x) {
        switch (file.orientation) {
          case 2: REQUIRE(pixel(pixels, image.width, x, y) == pixel(file.rgb, file.width, right - x, y)); break;
          case 3:
            REQUIRE(pixel(pixels, image.width, x, y) == pixel(file.rgb, file.width, right - x, bottom - y));
            break;
          case 6: REQUIRE(pixel(pixels, image.width, x, y) == pixel(file.rgb, file.width, y, bottom - x)); break;
          case 8: REQUIRE(pixel(pixels, image.width, x, y) == pixel(file.rgb, file.width, right - y, x)); break;
          default: FAIL("there is no formula for orientation " << file.orientation);
        }
      }
    }
  }
  CHECK(turned > 0);
}

TEST_CASE("a file that is cut short is refused, or has all its pixels already") {
  ImageDecoder decoder;
  Image image;
  for (const CodecFile& file : codec_files()) {
    CAPTURE(file.what);
    const std::size_t step = std::max<std::size_t>(1, file.bytes.size() / (forebay::testing::kSanitized ? 50 : 150));
    std::size_t refused = 0;
    for (std::size_t size = 0; size < file.bytes.size(); size += step) {
      CAPTURE(size);
      // A separate allocation, so that sanitizers detect reads past its end.
      const std::vector<std::byte> head(file.bytes.begin(), file.bytes.begin() + static_cast<std::ptrdiff_t>(size));
      const auto reason = refusal(decoder, head, kBounded, image);
      refused += reason ? 1 : 0;
      if (!reason) REQUIRE(pixels_of(image) == file.rgb);
    }
    CHECK(refused > 0);
    CHECK_FALSE(refusal(decoder, file.bytes, kBounded, image));
  }
}

TEST_CASE("damaged bytes end in an image or in SampleError, and in nothing that the next image sees") {
  constexpr std::uint64_t kSeed = 20261122;
  constexpr int kDamagedPerFile = forebay::testing::kSanitized ? 50 : 200;
  CAPTURE(kSeed);
  Random random(kSeed);
  ImageDecoder decoder;
  Image image;
  Mask mask;
  forebay::make::WideImage wide;
  for (const CodecFile& file : codec_files()) {
    CAPTURE(file.what);
    for (int i = 0; i < kDamagedPerFile; ++i) {
      std::vector<std::byte> bytes = file.bytes;
      const std::uint64_t changes = 1 + random.below(4);
      for (std::uint64_t change = 0; change < changes; ++change) {
        // Lengths are in headers, which in TIFF are at the end.
        const std::uint64_t edge = std::min<std::uint64_t>(bytes.size(), 64);
        const std::uint64_t where = random.below(3);
        const std::uint64_t place = where == 0 ? random.below(edge)
                                    : where == 1
                                        ? bytes.size() - 1 - random.below(std::min<std::uint64_t>(bytes.size(), 250))
                                        : random.below(bytes.size());
        // Extreme values are most likely to break length checks.
        constexpr std::array<std::uint8_t, 4> kEnds{0, 1, 0x7f, 0xff};
        bytes[place] = static_cast<std::byte>(random.below(2) == 0 ? random.below(256) : kEnds[random.below(4)]);
      }
      if (file.repair != nullptr && i % 4 != 0) file.repair(bytes);
      (void)refusal(decoder, bytes, kBounded, image);
      try {
        (void)decoder.open(bytes, kBounded);
        if (decoder.wide_channels() != 0) decoder.decode_wide(wide);
      } catch (const SampleError&) {  // as it should
      }
      try {
        decoder.decode_mask(bytes, kBounded, mask);
      } catch (const SampleError&) {  // as it should
      }
    }
    REQUIRE_FALSE(refusal(decoder, file.bytes, kBounded, image));
    CHECK(pixels_of(image) == file.rgb);
  }
}

TEST_CASE("larger images than transform.max_pixels are refused by their header") {
  ImageDecoder decoder;
  Image image;
  for (const CodecFile& file : codec_files()) {
    CAPTURE(file.what);
    const std::int64_t pixels = std::int64_t{file.width} * file.height;
    CHECK_FALSE(refusal(decoder, file.bytes, {.exif = false, .max_pixels = pixels}, image));
    const auto reason = refusal(decoder, file.bytes, {.exif = false, .max_pixels = pixels - 1}, image);
    REQUIRE(reason);
    CHECK(reason->find(std::to_string(file.width) + " x " + std::to_string(file.height)) != std::string::npos);
    CHECK(reason->find("transform.max_pixels allows " + std::to_string(pixels - 1)) != std::string::npos);
  }
}

TEST_CASE("a mask has the values that are stored") {
  ImageDecoder decoder;
  Mask mask;
  for (const CodecFile& file : codec_files()) {
    CAPTURE(file.what);
    if (!file.values || file.orientation != 1) {
      CHECK_THROWS_AS(decoder.decode_mask(file.bytes, {}, mask), SampleError);
      continue;
    }
    decoder.decode_mask(file.bytes, {}, mask);
    CHECK(mask.width == file.width);
    CHECK(mask.height == file.height);
    CHECK(mask.values == *file.values);
  }
}

TEST_CASE("numbers of more than 8 bits keep all of them where they are asked for") {
  ImageDecoder decoder;
  forebay::make::WideImage image;
  std::size_t wide = 0;
  for (const CodecFile& file : codec_files()) {
    CAPTURE(file.what);
    (void)decoder.open(file.bytes, {});
    CHECK((decoder.wide_channels() != 0) == !file.wide.empty());
    if (file.wide.empty() || file.orientation != 1) continue;
    ++wide;
    REQUIRE(file.wide.size() == static_cast<std::size_t>(file.width * file.height * decoder.wide_channels()));
    decoder.decode_wide(image);
    CHECK(image.width == file.width);
    CHECK(image.height == file.height);
    image.values.resize(file.wide.size());
    CHECK(image.values == file.wide);
  }
  CHECK(wide >= 20);
}

TEST_CASE("grey of a file is what its colours weigh, rounded once") {
  ImageDecoder decoder;
  Image image;
  for (const CodecFile& file : codec_files()) {
    CAPTURE(file.what);
    decode_whole(decoder, file.bytes, {.exif = false, .grey = true}, image);
    std::vector<std::uint8_t> expected;
    for (std::size_t i = 0; i < file.rgb.size(); i += 3) {
      const double grey = (19595.0 * file.rgb[i] + 38470.0 * file.rgb[i + 1] + 7471.0 * file.rgb[i + 2]) / 65536;
      expected.insert(expected.end(), 3, static_cast<std::uint8_t>(grey + 0.5));
    }
    CHECK(pixels_of(image) == expected);
  }
}

TEST_CASE("what is no image is named") {
  ImageDecoder decoder;
  Image image;
  const auto reason = [&](std::string_view text) {
    return refusal(decoder, std::as_bytes(std::span(text)), {}, image).value_or("decoded");
  };
  CHECK(reason("") == "not an image (" + std::string(forebay::data::kImageKinds) + "): empty");
  CHECK(reason("GIF89a").ends_with("): a GIF image"));
  CHECK(reason("hello").ends_with("): text"));
}

TEST_CASE("a file whose library this build lacks is told from a damaged one") {
  ImageDecoder decoder;
  Image image;
  for (const auto& [start, title] :
       {std::pair{"RIFF\x0c\0\0\0WEBPVP8 "sv, "WebP"sv}, std::pair{"II*\0\x08\0\0\0"sv, "TIFF"sv}}) {
    const auto* const codec = std::ranges::find(forebay::make::kCodecs, title, &forebay::make::NamedCodec::title);
    REQUIRE(codec != forebay::make::kCodecs.end());
    const auto reason = refusal(decoder, std::as_bytes(std::span(start)), {}, image).value_or("decoded");
    CAPTURE(reason);
    if (codec->kind->make == nullptr) {
      CHECK(reason == "a " + std::string(title) + " image, and this build of Forebay was made without " +
                          std::string(codec->kind->library));
    } else {
      CHECK(reason.starts_with(std::string(title) + ": damaged"));
    }
  }
}

TEST_CASE("a PNG that claims more pixels than its bytes can hold is refused before memory is taken") {
  ImageDecoder decoder;
  Image image;
  auto bytes = forebay::testing::png_files().front().bytes;
  // Claims 12,063 x 12,049 grey pixels of one bit.
  bytes[18] = bytes[22] = std::byte{0x2f};
  forebay::testing::png_files().front().repair(bytes);
  const auto reason = refusal(decoder, bytes, {}, image);
  REQUIRE(reason);
  CHECK(reason->find("bytes of pixels that its header claims") != std::string::npos);
}

// The memory that decoders use for images of all kinds, compared with what a run announces at its
// start.

// The peak of the process's memory while `work` ran, beyond what it has now; nothing if the kernel
// does not tell.
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
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
  const std::size_t before = kibibytes("VmRSS:");
  if (before == 0 || kibibytes("VmHWM:") > before + 64) return std::nullopt;
  work();
  return (kibibytes("VmHWM:") - before) * 1024;
}

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
    if (!peak) return;  // not reported by the kernel
    const double per_pixel = static_cast<double>(*peak) / (kSide * kSide);
    CAPTURE(per_pixel);
    constexpr double kFew = 0.5;  // bytes per pixel: rows, and a few hundred kB of the libraries
    const bool is_ordinary = file.what.starts_with("JPEG, ordinary");
    const double most = is_ordinary ? ImageDecoder::kBytesPerPixel : ImageDecoder::kMostBytesPerPixel;
    CHECK(per_pixel <= most + kFew);
  }
}

}  // namespace
}  // namespace forebay
