#include <png.h>
#include <zlib.h>

#include "make/png_inflater.hpp"
#include "png_reading.hpp"
#include "test.hpp"

// PngInflater gives the same as libpng for the same bytes, and declines what libpng refuses.
namespace {

using namespace forebay;
using namespace forebay::make;
using namespace forebay::testing;
using Bytes = std::vector<std::byte>;
using Values = std::vector<std::uint8_t>;

void put_number(Bytes& to, std::uint32_t number) {
  for (unsigned shift = 32; shift > 0; shift -= 8) to.push_back(static_cast<std::byte>(number >> (shift - 8)));
}

void put_chunk(Bytes& to, const char* name, std::span<const std::uint8_t> content) {
  put_number(to, static_cast<std::uint32_t>(content.size()));
  const std::size_t begin = to.size();
  for (int i = 0; i < 4; ++i) to.push_back(static_cast<std::byte>(name[i]));
  for (const std::uint8_t byte : content) to.push_back(static_cast<std::byte>(byte));
  const auto* const summed = reinterpret_cast<const Bytef*>(to.data() + begin);
  put_number(to, static_cast<std::uint32_t>(crc32(0, summed, static_cast<uInt>(to.size() - begin))));
}

// Compresses with a window of 2^bits bytes.
Values deflated(const Values& raw, int bits) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Values out(deflateBound(&stream, raw.size()));
  stream.next_in = const_cast<Bytef*>(raw.data());
  stream.avail_in = static_cast<uInt>(raw.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::uint8_t colours_of(std::size_t channels) {
  constexpr std::uint8_t kColours[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                       PNG_COLOR_TYPE_RGB_ALPHA};
  return kColours[channels - 1];
}

struct Recipe {
  PngShape shape;
  std::size_t chunks = 1;  // IDAT
  int window_bits = 15;
};

Bytes file_of(const Recipe& recipe, const Values& stream) {
  Bytes file;
  for (const unsigned byte : {0x89, 'P' + 0, 'N' + 0, 'G' + 0, 0x0D, 0x0A, 0x1A, 0x0A})
    file.push_back(static_cast<std::byte>(byte));
  Bytes sides;
  put_number(sides, static_cast<std::uint32_t>(recipe.shape.width));
  put_number(sides, static_cast<std::uint32_t>(recipe.shape.height));
  Values header;
  for (const std::byte byte : sides) header.push_back(std::to_integer<std::uint8_t>(byte));
  header.insert(header.end(), {8, colours_of(recipe.shape.channels), 0, 0, 0});
  put_chunk(file, "IHDR", header);
  put_chunk(file, "gAMA", Values{0, 1, 134, 160});
  for (std::size_t i = 0; i < recipe.chunks; ++i) {
    const std::size_t first = stream.size() * i / recipe.chunks;
    const std::size_t last = stream.size() * (i + 1) / recipe.chunks;
    put_chunk(file, "IDAT", std::span(stream).subspan(first, last - first));
  }
  put_chunk(file, "IEND", {});
  return file;
}

// Every row has a random filter; any bytes give a valid picture.
Bytes random_file(const Recipe& recipe, Random& random) {
  Values raw;
  for (std::size_t y = 0; y < recipe.shape.height; ++y) {
    raw.push_back(static_cast<std::uint8_t>(random.below(5)));
    for (std::size_t x = 0; x < recipe.shape.row_bytes(); ++x)
      raw.push_back(static_cast<std::uint8_t>(random.below(random.below(4) == 0 ? 256 : 8)));
  }
  return file_of(recipe, deflated(raw, recipe.window_bits));
}

// The pixels, unless it declines; checks that they equal libpng's.
std::optional<Values> decoded(PngInflater& inflater, const Bytes& file, const PngShape& shape, bool rgb) {
  Values ours(shape.width * shape.height * (rgb ? 3 : 1));
  if (!inflater.decode(file, shape, ours)) return std::nullopt;
  Values theirs(ours.size());
  CHECK(libpng_reads(file, PngPart::everything, rgb, theirs));
  CHECK(ours == theirs);
  return ours;
}

}  // namespace

TEST_CASE("pixels are libpng's, whatever the filters, channels and sizes") {
  PngInflater inflater;
  Random random(17);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const Recipe recipe{.shape = {.width = 1 + random.below(round % 10 == 0 ? 400 : 40),
                                  .height = 1 + random.below(40),
                                  .channels = 1 + static_cast<std::size_t>(round) % 4},
                        .chunks = 1 + random.below(4)};
    const Bytes file = random_file(recipe, random);
    REQUIRE(decoded(inflater, file, recipe.shape, true));
    if (recipe.shape.channels == 1) REQUIRE(decoded(inflater, file, recipe.shape, false));
  }
}

TEST_CASE("a stream may declare a smaller window, if the image fits it") {
  PngInflater inflater;
  Random random(5);
  const Recipe small{.shape = {.width = 9, .height = 9, .channels = 3}, .window_bits = 9};
  CHECK(decoded(inflater, random_file(small, random), small.shape, true));
  const Recipe large{.shape = {.width = 60, .height = 60, .channels = 3}, .window_bits = 9};
  CHECK_FALSE(decoded(inflater, random_file(large, random), large.shape, true));
}

TEST_CASE("damage that libpng refuses is never decoded") {
  PngInflater inflater;
  Random random(23);
  int declined = 0;
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    const Recipe recipe{.shape = {.width = 12, .height = 7, .channels = 3}, .chunks = 1 + random.below(3)};
    Bytes file = random_file(recipe, random);
    if (round % 4 == 0) {
      file.resize(1 + random.below(file.size() - 1));
    } else {
      file[random.below(file.size())] ^= static_cast<std::byte>(1U << random.below(8));
    }
    Values header;
    if (!libpng_reads(file, PngPart::header, true, header)) continue;  // then pixels are never requested
    declined += decoded(inflater, file, recipe.shape, true) ? 0 : 1;
  }
  CHECK(declined > 2000);
}

TEST_CASE("pixels that another chunk interrupts are left to libpng, also where none came before it") {
  PngInflater inflater;
  Random random(29);
  const Recipe recipe{.shape = {.width = 12, .height = 7, .channels = 3}};
  const Bytes whole = random_file(recipe, random);
  const std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  const auto with = [&](bool is_interrupted) {
    Bytes extra;
    put_chunk(extra, "IDAT", {});
    if (is_interrupted) put_chunk(extra, "tEXt", Values{'a', 0, 'b'});
    Bytes file = whole;
    file.insert(file.begin() + static_cast<std::ptrdiff_t>(text.find("IDAT")) - 4, extra.begin(), extra.end());
    return file;
  };
  CHECK(decoded(inflater, with(false), recipe.shape, true));
  CHECK_FALSE(decoded(inflater, with(true), recipe.shape, true));
}

TEST_CASE("checksums, lengths and filters must be right") {
  PngInflater inflater;
  const Recipe recipe{.shape = {.width = 20, .height = 10, .channels = 3}};
  Values raw(recipe.shape.height * (recipe.shape.row_bytes() + 1), 0);
  const Values stream = deflated(raw, 15);
  REQUIRE(decoded(inflater, file_of(recipe, stream), recipe.shape, true));

  Values other_sum = stream;
  other_sum.back() ^= 1;
  CHECK_FALSE(decoded(inflater, file_of(recipe, other_sum), recipe.shape, true));
  Values more = stream;
  more.push_back(0);
  CHECK_FALSE(decoded(inflater, file_of(recipe, more), recipe.shape, true));
  Values longer = raw;
  longer.push_back(0);
  CHECK_FALSE(decoded(inflater, file_of(recipe, deflated(longer, 15)), recipe.shape, true));
  Values shorter = raw;
  shorter.pop_back();
  CHECK_FALSE(decoded(inflater, file_of(recipe, deflated(shorter, 15)), recipe.shape, true));
  raw.front() = 5;
  CHECK_FALSE(decoded(inflater, file_of(recipe, deflated(raw, 15)), recipe.shape, true));
}
