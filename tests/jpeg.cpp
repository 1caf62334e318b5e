#include "data/image_size.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_support.hpp"
#include "make/image.hpp"
#include "make/jpeg_decoder.hpp"
#include "test.hpp"

// Decoding JPEG files: kinds of colours, EXIF orientation, damaged files and files that were made
// to exhaust memory or time. The reference for pixels is libjpeg's plain decoding.
namespace forebay::test_jpeg {

using namespace forebay::make;

namespace {

using namespace testing;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::uint8_t> pixels_of(const Image& image) {
  const auto size = static_cast<std::ptrdiff_t>(image.width) * image.height * 3;
  return {image.pixels.begin(), image.pixels.begin() + size};
}

std::vector<std::uint8_t> decode(JpegDecoder& decoder, const Bytes& file, const ImageOptions& options = {}) {
  Image image;
  decoder.decode(file, options, image);
  return pixels_of(image);
}

// The message with which the file is refused; empty if it is accepted.
std::string refusal(JpegDecoder& decoder, const Bytes& file, const ImageOptions& options = {}) {
  try {
    decode(decoder, file, options);
  } catch (const forebay::SampleError& error) {
    CHECK_FALSE(error.is_transient());
    return error.what();
  }
  return {};
}
std::string refusal(const Bytes& file, const ImageOptions& options = {}) {
  JpegDecoder decoder;
  return refusal(decoder, file, options);
}

// Removes every segment with this marker before the first scan.
Bytes without_segments(const Bytes& file, unsigned marker) {
  Bytes kept(file.begin(), file.begin() + 2);
  std::size_t at = 2;
  while (std::to_integer<unsigned>(file[at + 1]) != 0xda) {
    const auto length =
        2 + std::to_integer<std::size_t>(file[at + 2]) * 256 + std::to_integer<std::size_t>(file[at + 3]);
    const auto from = file.begin() + static_cast<std::ptrdiff_t>(at);
    if (std::to_integer<unsigned>(file[at + 1]) != marker) {
      kept.insert(kept.end(), from, from + static_cast<std::ptrdiff_t>(length));
    }
    at += length;
  }
  kept.insert(kept.end(), file.begin() + static_cast<std::ptrdiff_t>(at), file.end());
  return kept;
}

// Changes the size in the frame header.
Bytes claim_size(Bytes file, unsigned width, unsigned height) {
  for (std::size_t i = 2; i + 8 < file.size(); ++i) {
    const auto marker = std::to_integer<unsigned>(file[i + 1]);
    if (file[i] != std::byte{0xff} || (marker != 0xc0 && marker != 0xc2)) continue;
    file[i + 5] = static_cast<std::byte>(height >> 8U);
    file[i + 6] = static_cast<std::byte>(height & 0xffU);
    file[i + 7] = static_cast<std::byte>(width >> 8U);
    file[i + 8] = static_cast<std::byte>(width & 0xffU);
    return file;
  }
  FAIL("no frame header");
  return file;
}

std::vector<Recipe> every_kind() {
  std::vector<Recipe> recipes;
  const std::array<std::pair<int, int>, 5> sizes{{{1, 1}, {17, 9}, {64, 48}, {37, 121}, {8, 8}}};
  for (const auto& [width, height] : sizes) {
    for (const bool progressive : {false, true}) {
      for (const auto& [input, stored, components, subsampled] :
           {std::tuple{JCS_GRAYSCALE, JCS_GRAYSCALE, 1, true}, std::tuple{JCS_RGB, JCS_YCbCr, 3, true},
            std::tuple{JCS_RGB, JCS_YCbCr, 3, false}, std::tuple{JCS_RGB, JCS_RGB, 3, true},
            std::tuple{JCS_CMYK, JCS_CMYK, 4, true}, std::tuple{JCS_CMYK, JCS_YCCK, 4, true}}) {
        Recipe recipe;
        recipe.width = width;
        recipe.height = height;
        recipe.progressive = progressive;
        recipe.input = input;
        recipe.stored = stored;
        recipe.components = components;
        recipe.subsampled = subsampled;
        recipes.push_back(recipe);
      }
    }
  }
  return recipes;
}

forebay::Sample raw(std::int32_t width, std::int32_t height, std::int32_t channels) {
  forebay::Sample sample;
  sample.encoding = forebay::Encoding::raw;
  sample.width = width;
  sample.height = height;
  sample.channels = channels;
  return sample;
}

TEST_CASE("grey, YCbCr, RGB, CMYK and YCCK, baseline and progressive, equal libjpeg's plain decode") {
  JpegDecoder decoder(either_way());
  for (const auto& recipe : every_kind()) {
    CAPTURES(recipe.width, recipe.stored, recipe.progressive);
    const auto file = make_jpeg(recipe);
    Image image;
    decoder.decode(file, {}, image);
    CHECK(image.width == recipe.width);
    CHECK(image.height == recipe.height);
    CHECK(pixels_of(image) == plain_decode(file));
  }
}

TEST_CASE("grey is the luma that is stored, of any region; of CMYK what its colours weigh") {
  JpegDecoder decoder(either_way());
  for (const auto& recipe : every_kind()) {
    CAPTURES(recipe.width, recipe.stored, recipe.progressive);
    const auto file = make_jpeg(recipe);
    auto expected = plain_decode(file, true);
    if (recipe.components == 4) forebay::make::make_grey(expected);
    Image image;
    decoder.decode(file, {.grey = true}, image);
    REQUIRE(pixels_of(image) == expected);
    const forebay::Box region{recipe.width / 3, recipe.height / 4, recipe.width, (recipe.height + 1) / 2};
    (void)decoder.open(file, {.grey = true});
    decoder.decode(region, 1, image);
    const forebay::Box place = image.place_of(region);
    for (std::int32_t y = 0; y < region.height(); ++y) {
      const auto* const row = image.row(place.top + y) + 3 * place.left;
      const auto at = 3 * (static_cast<std::ptrdiff_t>(region.top + y) * recipe.width + region.left);
      REQUIRE(std::equal(row, row + 3 * region.width(), expected.begin() + at));
    }
  }
}

TEST_CASE("EXIF orientation turns the image to how it is displayed") {
  Recipe recipe;
  recipe.width = 45;
  recipe.height = 37;
  const auto stored = plain_decode(make_jpeg(recipe));
  JpegDecoder decoder(either_way());
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    recipe.app1 = exif_segment(orientation);
    const auto file = make_jpeg(recipe);
    CHECK(decode(decoder, file, {.exif = false}) == stored);
    Image image;
    decoder.decode(file, {.exif = true}, image);
    const int w = recipe.width;
    const int h = recipe.height;
    REQUIRE(image.width == (orientation >= 5 ? h : w));
    REQUIRE(image.height == (orientation >= 5 ? w : h));
    int wrong = 0;
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        // The stored (column, row) displayed at (x, y), from the standard's definition of the sides
        // of row 0 and column 0.
        const std::array<std::pair<int, int>, 8> source{{{x, y},
                                                         {w - 1 - x, y},
                                                         {w - 1 - x, h - 1 - y},
                                                         {x, h - 1 - y},
                                                         {y, x},
                                                         {y, h - 1 - x},
                                                         {w - 1 - y, h - 1 - x},
                                                         {w - 1 - y, x}}};
        const auto [column, row] = source[static_cast<std::size_t>(orientation - 1)];
        const auto* expected = stored.data() + (static_cast<std::ptrdiff_t>(row) * w + column) * 3;
        if (!std::equal(expected, expected + 3, image.row(y) + static_cast<std::ptrdiff_t>(x) * 3)) ++wrong;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("CMYK is turned to display orientation too") {
  Recipe recipe;
  recipe.input = recipe.stored = JCS_CMYK;
  recipe.components = 4;
  const auto upright = plain_decode(make_jpeg(recipe));
  recipe.app1 = exif_segment(3);
  JpegDecoder decoder(either_way());
  auto turned = decode(decoder, make_jpeg(recipe));
  std::reverse(turned.begin(), turned.end());  // reverses the pixels, and also their channels
  for (std::size_t i = 0; i < turned.size(); i += 3) std::swap(turned[i], turned[i + 2]);
  CHECK(turned == upright);
}

TEST_CASE("what is not a JPEG is named") {
  using namespace std::string_view_literals;
  CHECK(refusal(Bytes{}) == "not a JPEG: empty");
  CHECK(refusal(Bytes(4096)) == "not a JPEG: 4096 zero bytes");
  for (const auto& [content, what] :
       {std::pair{"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"sv, "a PNG image"sv},
        std::pair{"GIF89a\x01\0\x01\0"sv, "a GIF image"sv}, std::pair{"BM\x46\0\0\0\0\0\0\0"sv, "a BMP image"sv},
        std::pair{"RIFF\x10\0\0\0WEBPVP8 "sv, "a WebP image"sv}, std::pair{"II*\0\x08\0\0\0"sv, "a TIFF image"sv},
        std::pair{"MM\0*\0\0\0\x08"sv, "a TIFF image"sv}, std::pair{"  <!DOCTYPE HTML><html>"sv, "HTML"sv},
        std::pair{"<?xml version='1.0'?>"sv, "XML"sv}, std::pair{"BMW and other words\n"sv, "text"sv},
        std::pair{"\xffnot"sv, "begins with ff 6e"sv}}) {
    const auto reason = refusal(bytes_of(content));
    CHECK(reason.starts_with("not a JPEG: "));
    const bool named = contains(reason, what);
    CHECK_MESSAGE(named, reason);
  }
}

TEST_CASE("too many pixels are refused from the header") {
  Recipe recipe;
  recipe.width = 65500;
  recipe.height = 1;
  const auto wide = make_jpeg(recipe);
  JpegDecoder decoder(either_way());
  CHECK(decode(decoder, wide, {.max_pixels = 65500}) == plain_decode(wide));
  const auto reason = refusal(decoder, wide, {.max_pixels = 65499});
  CHECK(contains(reason, "65500 x 1 = 65500 pixels"));
  CHECK(contains(reason, "65499"));

  Image untouched;
  CHECK_THROWS_AS(decoder.decode(claim_size(make_jpeg({}), 65500, 65500), {}, untouched), forebay::SampleError);
  CHECK(untouched.pixels.empty());
  Recipe progressive;
  progressive.progressive = true;
  CHECK(contains(refusal(decoder, claim_size(make_jpeg(progressive), 65500, 65500)), "4290250000 pixels"));
}

TEST_CASE("more than 100 scans are refused, an ordinary progressive file is not") {
  Recipe recipe;
  recipe.input = recipe.stored = JCS_GRAYSCALE;
  recipe.components = 1;
  recipe.many_scans = true;
  const auto file = make_jpeg(recipe);
  CHECK_FALSE(plain_decode(file).empty());
  CHECK(refusal(file) == "more than 100 scans");
}

TEST_CASE("two components are refused") {
  Recipe recipe;
  recipe.input = recipe.stored = JCS_UNKNOWN;
  recipe.components = 2;
  CHECK(contains(refusal(make_jpeg(recipe)), "2 components"));
}

TEST_CASE("a file cut short anywhere is refused") {
  JpegDecoder decoder(either_way());
  for (const bool progressive : {false, true}) {
    Recipe recipe;
    recipe.progressive = progressive;
    recipe.app1 = exif_segment(6);
    const auto whole = make_jpeg(recipe);
    REQUIRE(refusal(decoder, whole).empty());
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      CHECK_MESSAGE(!refusal(decoder, cut).empty(), "cut to " << size << " of " << whole.size() << " bytes");
    }
  }
}

TEST_CASE("surplus bytes between segments are no damage") {
  auto file = make_jpeg({});
  const auto expected = plain_decode(file);
  file.insert(file.begin() + 2, {std::byte{1}, std::byte{2}, std::byte{3}});
  file.insert(file.end(), 100, std::byte{0x55});  // also after the end
  JpegDecoder decoder(either_way());
  CHECK(decode(decoder, file) == expected);
}

TEST_CASE("no image leaves anything behind for the next one") {
  Recipe recipe;
  recipe.optimised = true;  // its own Huffman tables
  const auto good = make_jpeg(recipe);
  const auto expected = plain_decode(good);
  const auto no_quantisation = without_segments(good, 0xdb);
  const auto no_huffman = without_segments(make_jpeg({}), 0xc4);

  JpegDecoder fresh;
  const auto standard_tables = decode(fresh, no_huffman);  // libjpeg falls back to the standard's tables
  JpegDecoder decoder(either_way());
  CHECK(decode(decoder, good) == expected);
  CHECK(contains(refusal(decoder, no_quantisation), "Quantization table"));
  CHECK(decode(decoder, good) == expected);
  CHECK(decode(decoder, no_huffman) == standard_tables);
  JpegDecoder moved(std::move(decoder));
  CHECK(decode(moved, good) == expected);
}

TEST_CASE("made bombs are refused quickly or decoded within the limit") {
  const auto data = forebay::testing::real_data();
  if (!data) return;
  JpegDecoder decoder(either_way());
  for (const auto& [file_name, expected] :
       {std::pair{"bomb_scans.jpg", ""}, std::pair{"bomb_forged_65500.jpg", "max_pixels"},
        std::pair{"bomb_forged_prog_65500.jpg", "max_pixels"},
        std::pair{"bomb_forged_30000x20000.jpg", "max_pixels"}}) {
    const auto answer = refusal(decoder, forebay::testing::read_bytes(*data / "made" / "jpeg" / file_name));
    const bool as_expected = !answer.empty() && contains(answer, expected);
    CHECK_MESSAGE(as_expected, answer);
  }
}

TEST_CASE("raw samples become RGB") {
  Image image;
  const Bytes grey{std::byte{1}, std::byte{2}, std::byte{250}, std::byte{4}, std::byte{5}, std::byte{6}};
  forebay::make::decode_raw(grey, raw(3, 2, 1), image);
  CHECK(image.width == 3);
  CHECK(image.height == 2);
  CHECK(pixels_of(image) == std::vector<std::uint8_t>{1, 1, 1, 2, 2, 2, 250, 250, 250, 4, 4, 4, 5, 5, 5, 6, 6, 6});
  forebay::make::decode_raw(grey, raw(1, 2, 3), image);
  CHECK(pixels_of(image) == std::vector<std::uint8_t>{1, 2, 250, 4, 5, 6});
  auto planes = raw(2, 1, 3);
  planes.planar = true;
  forebay::make::decode_raw(grey, planes, image);
  CHECK(pixels_of(image) == std::vector<std::uint8_t>{1, 250, 5, 2, 4, 6});
  planes.bgr = true;
  forebay::make::decode_raw(grey, planes, image);
  CHECK(pixels_of(image) == std::vector<std::uint8_t>{5, 250, 1, 6, 4, 2});
  planes.planar = false;
  forebay::make::decode_raw(grey, planes, image);
  CHECK(pixels_of(image) == std::vector<std::uint8_t>{250, 2, 1, 6, 5, 4});
  CHECK_THROWS_WITH_AS(forebay::make::decode_raw(grey, raw(3, 3, 1), image),
                       doctest::Contains("need 9 bytes, but there are 6"), forebay::SampleError);
  CHECK_THROWS_AS(forebay::make::decode_raw(grey, raw(1, 2, 2), image), forebay::SampleError);
  CHECK_THROWS_AS(forebay::make::decode_raw(grey, raw(0, 2, 1), image), forebay::SampleError);
  CHECK_THROWS_AS(forebay::make::decode_raw({}, raw(-1, -1, 1), image), forebay::SampleError);
}

struct Entry {
  std::uint16_t tag;
  std::uint16_t type;
  std::uint32_t count;
  std::uint16_t value;
};

constexpr Entry orientation(std::uint16_t value) { return {0x0112, 3, 1, value}; }

// Writes an EXIF segment in either byte order.
class Writer {
 public:
  explicit Writer(bool big_endian) : big_endian_(big_endian) {}

  Bytes segment(const std::vector<Entry>& entries, std::uint32_t directory = 8) {
    text(std::string_view("Exif\0\0", 6));
    text(big_endian_ ? "MM" : "II");
    number(42, 2);
    number(directory, 4);
    number(entries.size(), 2);
    for (const auto& entry : entries) {
      number(entry.tag, 2);
      number(entry.type, 2);
      number(entry.count, 4);
      const int size = entry.type == 4 || entry.type == 9 ? 4 : entry.type == 1 || entry.type == 6 ? 1 : 2;
      number(entry.value, size);
      number(0, 4 - size);
    }
    number(0, 4);
    return bytes_;
  }

 private:
  void text(std::string_view characters) {
    for (const char c : characters) bytes_.push_back(static_cast<std::byte>(c));
  }
  void number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) {
      const int shift = 8 * (big_endian_ ? size - 1 - i : i);
      bytes_.push_back(static_cast<std::byte>(value >> shift & 0xffU));
    }
  }

  bool big_endian_;
  Bytes bytes_;
};

TEST_CASE("every orientation is read in both byte orders") {
  for (const bool big_endian : {false, true}) {
    for (std::uint16_t value = 1; value <= 8; ++value) {
      CHECK(forebay::data::exif_orientation(Writer(big_endian).segment({{0x010f, 2, 4, 7}, orientation(value)})) ==
            value);
    }
  }
}

TEST_CASE("an orientation is a number of any integer type") {
  for (const bool big_endian : {false, true}) {
    const auto read = [&](unsigned type) {
      return forebay::data::exif_orientation(
          Writer(big_endian).segment({{0x0112, static_cast<std::uint16_t>(type), 1, 6}}));
    };
    for (const unsigned type : {1U, 3U, 4U, 6U, 8U, 9U}) CHECK(read(type) == 6);
    for (const unsigned type : {0U, 2U, 5U, 7U, 10U, 11U, 12U, 13U, 99U}) CHECK(read(type) == 1);
  }
}

TEST_CASE("what is absent or out of range is orientation 1") {
  for (const bool big_endian : {false, true}) {
    const auto read = [&](const std::vector<Entry>& entries, std::uint32_t directory = 8) {
      return forebay::data::exif_orientation(Writer(big_endian).segment(entries, directory));
    };
    CHECK(read({}) == 1);
    CHECK(read({{0x010f, 2, 4, 6}}) == 1);
    CHECK(read({orientation(0)}) == 1);
    CHECK(read({orientation(9)}) == 1);
    CHECK(read({orientation(0x0600)}) == 1);
    CHECK(read({{0x0112, 2, 1, 6}}) == 1);
    CHECK(read({{0x0112, 3, 2, 6}}) == 1);
    CHECK(read({orientation(6)}, 0xffffffff) == 1);
    CHECK(read({orientation(6)}, 0xfffffff0) == 1);
    CHECK(read({orientation(6)}, 200) == 1);
  }
  CHECK(forebay::data::exif_orientation({}) == 1);
}

TEST_CASE("other APP1 segments are not EXIF") {
  const std::string_view xmp = "http://ns.adobe.com/xap/1.0/";
  CHECK_FALSE(forebay::data::is_exif(std::as_bytes(std::span(xmp.data(), xmp.size()))));
  CHECK_FALSE(forebay::data::is_exif({}));
  CHECK(forebay::data::is_exif(Writer(true).segment({})));
}

TEST_CASE("damaged segments give 1 to 8 and are never read past their end") {
  forebay::Random random = testing::random_from(20240607);
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = Writer(round % 2 == 0).segment({{0x010f, 2, 4, 7}, orientation(6), {0x8769, 4, 1, 26}});
    const auto changes = random.below(4);
    for (std::uint64_t i = 0; i < changes; ++i) {
      // After the header, where the parser sees the damage.
      bytes[6 + random.below(bytes.size() - 6)] = static_cast<std::byte>(random.bits() & 0xffU);
    }
    // A copy of exactly this size, so that AddressSanitizer detects reads past its end.
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(random.below(bytes.size() + 1)));
    const int value = forebay::data::exif_orientation(cut);
    CHECK_MESSAGE((value >= 1 && value <= 8), "round " << round);
  }
}

TEST_CASE("a segment cut anywhere before its value is orientation 1") {
  const auto whole = Writer(false).segment({orientation(6)});
  constexpr std::size_t kValueEnd = 6 + 8 + 2 + 10;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(forebay::data::exif_orientation(cut) == (size >= kValueEnd ? 6 : 1));
  }
}

}  // namespace
}  // namespace forebay::test_jpeg
