// Packed JPEG files as samples: they have the pixels, sizes and errors of the original files.
#include <forebay/feeder.hpp>

#include "jpeg_damage.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_plain_files.hpp"
#include "make/image_decoder.hpp"
#include "make/packed_file.hpp"
#include "memory_dataset.hpp"
#include "pack/byte_reader.hpp"
#include "pack/packed_coefficients.hpp"
#include "pack/plain_header.hpp"
#include "test.hpp"

namespace forebay::test_packed_samples {

using namespace forebay::jpeg;
using namespace forebay::make;
using namespace forebay::pack;

namespace {

using namespace testing;
using Bytes = std::vector<std::byte>;

// Files that are decoded in different ways: with an orientation, with large quantisers, grey, and
// with all samplings.
std::vector<Bytes> varied_files() {
  auto files = testing::plain_files();
  for (int orientation = 1; orientation <= 8; ++orientation) {
    files.push_back(make_jpeg({.width = 90, .height = 50, .app1 = exif_segment(orientation)}));
  }
  files.push_back(encoded_noise({.width = 70, .height = 40, .h = 2, .v = 2, .quality = 1}));
  files.push_back(encoded_noise({.width = 70, .height = 40, .h = 2, .v = 2, .quality = 100}));
  return files;
}

class PackedDataset final : public testing::LikeDataset {
 public:
  PackedDataset(std::vector<Bytes> files, const PackTables& tables, bool knows_tables = true)
      : LikeDataset(std::make_shared<testing::JpegDataset>(std::move(files))),
        tables_(tables),
        knows_tables_(knows_tables) {}

  [[nodiscard]] std::span<const std::byte> tables(std::uint32_t key) const override {
    if (throws) throw std::runtime_error("lost its tables");
    if (!knows_tables_ || key != tables_.key()) return {};
    return tables_.to_bytes();
  }

  bool throws = false;

 private:
  PackTables tables_;
  bool knows_tables_;
};

testing::Batches run(const Options& options, const std::shared_ptr<const Dataset>& dataset) {
  return testing::batches_of(options, {.dataset = dataset});
}

TEST_CASE("packed files have the pixels of the files that were packed, in every region") {
  const auto files = varied_files();
  const PackTables tables = tables_for(files);
  JpegPacker packer(tables);
  TableCache cache(
      [&](std::uint32_t key) { return key == tables.key() ? tables.to_bytes() : std::span<const std::byte>(); });
  const PixelKernels* const kernels = either_way();
  ImageDecoder decoder(kernels, nullptr, &cache);
  JpegDecoder plain;
  Image found;
  Image expected;
  Random random(51);
  std::size_t own = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    const Bytes bytes = packed(packer, files[i]);
    for (int n = 0; n < 6; ++n) {
      const ImageOptions options{.exif = n % 4 != 3, .grey = n % 3 == 2};
      const ImageSize size = plain.open(files[i], options);
      const ImageSize of_packed = decoder.open(bytes, options);
      CHECK(of_packed.width == size.width);
      CHECK(of_packed.height == size.height);
      CHECK(decoder.can_shrink());
      const Box region = n % 5 == 0 ? Box{0, 0, size.width, size.height} : random_region(random, size);
      const std::int32_t shrink = n == 5 ? 2 : 1;
      plain.decode(region, shrink, expected);
      decoder.decode(region, shrink, found);
      own += decoder.was_own() ? 1 : 0;
      REQUIRE(found.shrink == expected.shrink);
      if (shrink == 1) CHECK(same_region(found, expected, region));
      if (shrink == 2) CHECK(is_part_of(found, expected, {0, 0, size.width, size.height}));
    }
  }
  CHECK((own > 0) == (kernels != nullptr));
}

TEST_CASE("damaged files that can be packed are decoded, or refused, as the files are") {
  const auto files = varied_files();
  const PackTables tables = tables_for(files);
  JpegPacker packer(tables);
  TableCache cache([&](std::uint32_t) { return tables.to_bytes(); });
  ImageDecoder decoder(either_way(), nullptr, &cache);
  JpegDecoder plain;
  Image found;
  Image expected;
  Random random(52);
  std::size_t decoded = 0;
  std::size_t refused = 0;
  const auto outcome = [](auto& of, const Bytes& bytes, const Box* region, Image& image, ImageSize& size) {
    try {
      size = of.open(bytes, {.max_pixels = 100'000});
      of.decode(region == nullptr ? Box{0, 0, size.width, size.height} : *region, 1, image);
      return std::string();
    } catch (const SampleError& error) {
      return std::string(error.what());
    }
  };
  for (int i = 0; i < (testing::kSanitized ? 1500 : 4000); ++i) {
    Bytes file = files[random.below(files.size())];
    if (file.size() > 3000) continue;
    testing::damage(file, random);
    const auto bytes = packer.pack(file);
    if (!bytes) continue;
    ImageSize size;
    const std::string expected_refusal = outcome(plain, file, nullptr, expected, size);
    CHECK(outcome(decoder, *bytes, nullptr, found, size) == expected_refusal);
    ++(expected_refusal.empty() ? decoded : refused);
    if (!expected_refusal.empty()) continue;
    CHECK(same_region(found, expected, {0, 0, size.width, size.height}));
    const Box region = random_region(random, size);
    CHECK(outcome(decoder, *bytes, &region, found, size).empty());
    CHECK(same_region(found, expected, region));
  }
  CHECK(decoded > 50);
  CHECK(refused > 0);
}

TEST_CASE("a packed file is refused where the file would be, in the same words") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  TableCache cache([&](std::uint32_t) { return tables.to_bytes(); });
  ImageDecoder decoder(either_way(), nullptr, &cache);
  const Bytes file = make_jpeg({.width = 100, .height = 60});
  const Bytes bytes = packed(packer, file);
  const auto refusal = [&](const Bytes& of) -> std::string {
    try {
      (void)decoder.open(of, {.max_pixels = 5999});
      return "";
    } catch (const SampleError& error) {
      return error.what();
    }
  };
  CHECK(refusal(file) != "");
  CHECK(refusal(bytes) == refusal(file));
  Mask mask;
  CHECK_THROWS_WITH_AS(decoder.decode_mask(bytes, {}, mask), doctest::Contains("a JPEG cannot be a mask"), SampleError);
}

TEST_CASE("a packed file without its tables, with damaged or with other ones, is a bad sample that says so") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  const Bytes bytes = packed(packer, make_jpeg({}));
  const auto refusal = [&](TableCache* cache) -> std::string {
    ImageDecoder decoder(nullptr, nullptr, cache);
    try {
      (void)decoder.open(bytes, {});
      return "";
    } catch (const SampleError& error) {
      return error.what();
    }
  };
  CHECK(testing::contains(refusal(nullptr), "only a dataset with its tables"));
  TableCache none([](std::uint32_t) { return std::span<const std::byte>(); });
  CHECK(testing::contains(refusal(&none), "does not have the tables"));
  Bytes damaged(tables.to_bytes().begin(), tables.to_bytes().end());
  damaged[100] ^= std::byte{1};
  TableCache broken([&](std::uint32_t) { return std::span<const std::byte>(damaged); });
  CHECK(testing::contains(refusal(&broken), "checksum"));
  const PackTables others = tables_for({make_jpeg({}), make_jpeg({.width = 70})});
  TableCache wrong([&](std::uint32_t) { return others.to_bytes(); });
  CHECK(testing::contains(refusal(&wrong), "other tables"));
}

TEST_CASE("damaged coefficients are a bad sample, whoever decodes") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  TableCache cache([&](std::uint32_t) { return tables.to_bytes(); });
  ImageDecoder decoder(either_way(), nullptr, &cache);
  Bytes bytes = packed(packer, make_jpeg({.width = 200, .height = 200}));
  bytes.resize(bytes.size() - 20);
  Image image;
  CHECK_THROWS_WITH_AS(
      [&] {
        const ImageSize size = decoder.open(bytes, {});
        decoder.decode({0, 0, size.width, size.height}, 1, image);
      }(),
      doctest::Contains("damaged"), SampleError);
}

TEST_CASE("a feeder over packed files serves the batches of a feeder over the files") {
  const auto files = varied_files();
  const PackTables tables = tables_for(files);
  JpegPacker packer(tables);
  std::vector<Bytes> all;
  for (const Bytes& file : files) all.push_back(packed(packer, file));
  Options options = testing::memory_options(8);
  options.run.epochs = 2;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {32, 40};
  options.workers.jpeg = JpegLibrary::own;
  SUBCASE("own") {}
  SUBCASE("libjpeg-turbo") { options.workers.jpeg = JpegLibrary::turbo; }
  const testing::Batches expected = run(options, std::make_shared<testing::JpegDataset>(files));
  CHECK(!expected.empty());
  CHECK(run(options, std::make_shared<PackedDataset>(all, tables)) == expected);
}

TEST_CASE("a feeder whose dataset lacks the tables says so") {
  const auto files = varied_files();
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  std::vector<Bytes> all;
  for (const Bytes& file : files) all.push_back(packed(packer, file));
  Options options = testing::memory_options(8);
  options.on_bad = OnBad::fail;
  CHECK_THROWS_WITH_AS((void)run(options, std::make_shared<PackedDataset>(all, tables, false)),
                       doctest::Contains("does not have the tables"), Error);
}

TEST_CASE("what a dataset throws when it is asked for tables ends the run") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  std::vector<Bytes> all;
  for (int i = 0; i < 8; ++i) all.push_back(packed(packer, make_jpeg({.width = 20 + i})));
  const auto dataset = std::make_shared<PackedDataset>(all, tables);
  dataset->throws = true;
  CHECK_THROWS_WITH_AS((void)run(testing::memory_options(4), dataset), doctest::Contains("tables() threw"), Error);
}

// Damaged packed JPEG files, and the cost of detecting the damage: changed bytes, later versions,
// oversized tiles and headers.

constexpr std::size_t kVersionAt = 3;
constexpr std::size_t kChecksumAt = 8;
constexpr std::size_t kTileWidthAt = 14;
constexpr std::size_t kTileHeightAt = 15;

// The message with which a region of a packed file is refused; empty if it is decoded.
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
  // The length of the first tile, then half of its content.
  const std::size_t lengths = whole.size() - parts.tiles().size();
  ByteReader reader(parts.tiles());
  const std::uint32_t length = reader.number();
  REQUIRE(reader.rest().size() == length);
  Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(lengths));
  put_varint(cut, length / 4);
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
  decode(large);  // needed after all, so it is kept
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

}  // namespace
}  // namespace forebay::test_packed_samples
