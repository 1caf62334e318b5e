#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "jpeg_either.hpp"
#include "jpeg_pack_support.hpp"
#include "make/image_decoder.hpp"
#include "make/packed_file.hpp"
#include "pack/byte_reader.hpp"
#include "pack/packed_coefficients.hpp"
#include "pack/plain_header.hpp"
#include "support.hpp"

// What a packed JPEG file refuses, and what it may cost to find that out: bytes that changed, later versions, tiles and
// headers that are too large.
namespace forebay {
namespace {

using testing::make_jpeg;
using testing::packed;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kVersionAt = 3;
constexpr std::size_t kChecksumAt = 8;
constexpr std::size_t kTileWidthAt = 14;
constexpr std::size_t kTileHeightAt = 15;

// Why a region of a packed file is refused; empty where it is not.
std::string refusal_of(ImageDecoder& decoder, const Bytes& bytes, bool grey, const Box& region) {
  Image image;
  try {
    (void)decoder.open(bytes, {.grey = grey});
    decoder.decode(region, 1, image);
    return "";
  } catch (const SampleError& error) {
    return error.what();
  }
}

Bytes with_metadata(const Bytes& file, std::size_t segments, std::uint64_t seed) {
  constexpr std::size_t kLongest = 65'535;
  Random random(seed);
  Bytes longer(file.begin(), file.begin() + 2);
  for (std::size_t i = 0; i < segments; ++i) {
    for (const int byte : {0xff, 0xe1, 0xff, 0xff}) longer.push_back(static_cast<std::byte>(byte));
    longer.resize(longer.size() + kLongest - 2, static_cast<std::byte>(random.below(256)));
  }
  longer.insert(longer.end(), file.begin() + 2, file.end());
  return longer;
}

}  // namespace

TEST_CASE("no byte of a packed file can change unseen, whoever decodes, and whatever part") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  TableCache cache(
      [&](std::uint32_t key) { return key == tables.key() ? tables.to_bytes() : std::span<const std::byte>(); });
  ImageDecoder own(trusted_pixel_kernels(), nullptr, &cache);
  ImageDecoder turbo(nullptr, nullptr, &cache);
  const Box corner{0, 0, 9, 9};
  Bytes bytes = packed(packer, make_jpeg({.width = 300, .height = 150}));
  for (const bool grey : {false, true}) {
    CHECK(refusal_of(own, bytes, grey, corner).empty());
    CHECK(refusal_of(turbo, bytes, grey, corner).empty());
    for (std::size_t at = 3; at < bytes.size(); at += at < 700 ? 1 : 97) {
      CAPTURE(at);
      bytes[at] ^= std::byte{0x10};
      const std::string refusal = refusal_of(own, bytes, grey, corner);
      CHECK_FALSE(refusal.empty());
      CHECK(refusal_of(turbo, bytes, grey, corner) == refusal);
      bytes[at] ^= std::byte{0x10};
    }
  }
}

TEST_CASE("bytes that have been compared with another checksum are not compared with their own") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  TableCache cache([&](std::uint32_t) { return tables.to_bytes(); });
  Bytes bytes = packed(packer, make_jpeg({}));
  bytes[kChecksumAt] ^= std::byte{1};
  ImageDecoder decoder(testing::either_way(), nullptr, &cache);
  CHECK(testing::contains(refusal_of(decoder, bytes, false, {0, 0, 1, 1}), "checksum differs"));
  Image image;
  (void)decoder.open(bytes, {.is_checked = true});
  decoder.decode({0, 0, 1, 1}, 1, image);
  CHECK(image.area.width() > 0);
  const std::span<const std::byte> short_of(bytes.data(), kChecksumAt + 3);
  CHECK_THROWS_WITH_AS((void)decoder.open(short_of, {.is_checked = true}), doctest::Contains("damaged"), SampleError);
}

TEST_CASE("a packed file of a later version is refused by that version's number") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  TableCache cache([&](std::uint32_t) { return tables.to_bytes(); });
  ImageDecoder decoder(testing::either_way(), nullptr, &cache);
  Bytes bytes = packed(packer, make_jpeg({}));
  bytes[kVersionAt] = std::byte{7};
  CHECK(testing::contains(refusal_of(decoder, bytes, false, {0, 0, 1, 1}), "version 7"));
  CHECK_THROWS_WITH_AS((void)packer.unpack(bytes), doctest::Contains("version 7"), SampleError);
}

TEST_CASE("tiles that are higher than any packer makes them are refused") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  Bytes bytes = packed(packer, make_jpeg({.width = 16, .height = 600}));
  bytes[kTileWidthAt] = std::byte{1};
  bytes[kTileHeightAt] = std::byte{255};
  set_checksum(bytes);
  CHECK_THROWS_WITH_AS((void)packer.unpack(bytes), doctest::Contains("too high"), SampleError);
}

TEST_CASE("a tile without the bytes that its luma takes is refused, also where luma alone is decoded") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  const Bytes file = encoded_noise({.width = 64, .height = 64, .h = 2, .v = 2, .quality = 90});
  const auto header = PlainHeader::read(file);
  REQUIRE(header.has_value());
  const Bytes whole = packed(packer, file);
  PackedJpeg parts;
  parts.open(whole, tables);
  // The first tile's length, then half of what it has.
  const std::size_t lengths = whole.size() - parts.tiles().size();
  ByteReader reader(parts.tiles());
  const std::uint32_t length = reader.number();
  REQUIRE(reader.rest().size() == length);
  Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(lengths));
  put_number(cut, length / 4);
  put_bytes(cut, reader.rest().first(length / 4));
  set_checksum(cut);
  parts.open(cut, tables);
  for (const PackKernels& kernels : supported_pack_kernels()) {
    PackedCoefficients coefficients(kernels);
    coefficients.open(parts, header->frame);
    CoefficientRow row;
    row.reset(header->frame, 1, {0, 0, header->frame.mcus_across, header->frame.mcus_down});
    CHECK_THROWS_WITH_AS((void)coefficients.read(0, row), doctest::Contains("damaged"), SampleError);
  }
}

TEST_CASE("memory of an image with large tiles goes back when none needs it for a while") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  const Bytes large = encoded_noise({.width = 512, .height = 128, .quality = 95});
  const Bytes small = encoded_noise({.width = 16, .height = 16, .quality = 50});
  constexpr std::size_t kKept = std::size_t{64} << 10;
  PackedCoefficients coefficients(supported_pack_kernels().front(), kKept);
  PackedJpeg parts;
  const auto decode = [&](const Bytes& file) {
    const auto header = PlainHeader::read(file);
    REQUIRE(header.has_value());
    const Bytes bytes = packed(packer, file);
    parts.open(bytes, tables);
    coefficients.open(parts, header->frame);
    CoefficientRow row;
    row.reset(header->frame, header->frame.components, {0, 0, header->frame.mcus_across, header->frame.mcus_down});
    CHECK(coefficients.read(0, row));
  };
  decode(large);
  const std::size_t most = coefficients.held();
  REQUIRE(most > kKept);
  for (int i = 0; i + 1 < PackedCoefficients::kPatience; ++i) decode(small);
  CHECK(coefficients.held() >= most);
  decode(large);  // needed after all
  for (int i = 0; i < PackedCoefficients::kPatience + 2; ++i) decode(small);
  CHECK(coefficients.held() <= kKept);
  decode(large);
}

TEST_CASE("two files with the same long metadata do not displace what all files have in common") {
  const Bytes plain = make_jpeg({.width = 40, .height = 40});
  std::vector<Bytes> files;
  for (int i = 0; i < 30; ++i) files.push_back(make_jpeg({.width = 40 + i, .height = 40}));
  for (int i = 0; i < 2; ++i) files.push_back(with_metadata(plain, 18, 5));
  const PackTables tables = testing::tables_for(files);
  const PackTables without = testing::tables_for({files.begin(), files.end() - 2});
  CHECK(tables.to_bytes().size() < (std::size_t{96} << 10));
  JpegPacker packer(tables);
  JpegPacker other(without);
  const Bytes bytes = packed(packer, files.front());
  CHECK(bytes.size() <= packed(other, files.front()).size() + 32);
  CHECK(packer.unpack(bytes) == files.front());
  CHECK(packer.unpack(packed(packer, files.back())) == files.back());
}

TEST_CASE("a header that no packed file may have is not packed") {
  JpegPacker packer(PackTraining().finish());
  const Bytes file = make_jpeg({});
  CHECK(packer.pack(with_metadata(file, 1020, 6)).has_value());
  CHECK_FALSE(packer.pack(with_metadata(file, 1030, 6)).has_value());
}

TEST_CASE("the dataset that is asked for tables may ask for others") {
  const PackTables one = PackTraining().finish();
  const PackTables other = testing::tables_for({make_jpeg({}), make_jpeg({.width = 70})});
  int asked = 0;
  TableCache* itself = nullptr;
  TableCache cache([&](std::uint32_t key) {
    const bool is_first = ++asked == 1;
    if (key == other.key()) return other.to_bytes();
    CHECK(itself->tables(other.key())->key() == other.key());
    return is_first ? std::span<const std::byte>() : one.to_bytes();
  });
  itself = &cache;
  CHECK_THROWS_AS((void)cache.tables(one.key()), SampleError);
  CHECK(cache.tables(one.key())->key() == one.key());  // what was not there is asked for again
  CHECK(cache.tables(one.key())->key() == one.key());
  CHECK(asked == 3);
}

}  // namespace forebay
