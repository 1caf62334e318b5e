#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "jpeg_damage.hpp"
#include "jpeg_dataset.hpp"
#include "jpeg_either.hpp"
#include "jpeg_pack_support.hpp"
#include "jpeg_parts.hpp"
#include "make/image_decoder.hpp"
#include "make/packed_file.hpp"
#include "support.hpp"

// Packed JPEG files as samples: the pixels, sizes and refusals of the files that were packed.
namespace forebay {
namespace {

using testing::either_way;
using testing::exif_segment;
using testing::is_part_of;
using testing::make_jpeg;
using testing::packed;
using testing::random_region;
using testing::Recipe;
using testing::same_region;
using testing::tables_for;
using Bytes = std::vector<std::byte>;

// Files whose decoding differs: with an orientation, with quantisers that are large, grey, and of all samplings.
std::vector<Bytes> varied_files() {
  auto files = testing::plain_files();
  for (int orientation = 1; orientation <= 8; ++orientation) {
    files.push_back(make_jpeg({.width = 90, .height = 50, .app1 = exif_segment(orientation)}));
  }
  files.push_back(encoded_noise({.width = 70, .height = 40, .h = 2, .v = 2, .quality = 1}));
  files.push_back(encoded_noise({.width = 70, .height = 40, .h = 2, .v = 2, .quality = 100}));
  return files;
}

class PackedDataset final : public Dataset {
 public:
  PackedDataset(std::vector<Bytes> files, const PackTables& tables, bool knows_tables = true)
      : base_(std::move(files)), tables_(tables), knows_tables_(knows_tables) {}

  [[nodiscard]] std::string_view format() const noexcept override { return base_.format(); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return base_.size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return base_.classes(); }
  [[nodiscard]] Sample sample(std::uint64_t id) const override { return base_.sample(id); }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return base_.name(id); }
  void read(std::uint64_t id, ReadTarget& target) const override { base_.read(id, target); }
  [[nodiscard]] std::span<const std::byte> tables(std::uint32_t key) const override {
    if (throws) throw std::runtime_error("lost its tables");
    if (!knows_tables_ || key != tables_.key()) return {};
    return tables_.to_bytes();
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return base_.skipped(); }
  [[nodiscard]] IndexCounts counts() const noexcept override { return base_.counts(); }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return base_.serialize(); }

  bool throws = false;

 private:
  testing::JpegDataset base_;
  PackTables tables_;
  bool knows_tables_;
};

using Batches = std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::byte>>;

Batches run(const Options& options, const std::shared_ptr<const Dataset>& dataset) {
  Feeder feeder(options, Parts{.dataset = dataset});
  Batches batches;
  while (auto batch = feeder.next()) {
    const auto* bytes = batch->images().as<std::byte>();
    batches[{batch->epoch(), batch->batch()}].assign(bytes, bytes + batch->images().bytes());
  }
  return batches;
}

}  // namespace

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
  const Batches expected = run(options, std::make_shared<testing::JpegDataset>(files));
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

}  // namespace forebay
