// Decoding with a decode index: the pixels are those of a decode without it, whatever the index or
// the files contain.
#include "jpeg_damage.hpp"
#include "jpeg_indexed.hpp"
#include "jpeg_streams.hpp"
#include "test.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::test_jpeg_index {

using namespace forebay::jpeg;
using namespace forebay::make;

namespace {

using namespace testing;

constexpr std::pair<int, int> kLuma[] = {{0, 0}, {1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}};

std::vector<Bytes> large_files() {
  std::vector<Bytes> files;
  for (const auto& luma : kLuma) {
    for (const int interval : {0, 1, 7, 1000}) {
      Recipe recipe = recipe_of(333 + interval % 10, 290, luma, interval);
      recipe.optimised = interval == 7;
      if (interval == 1) recipe.app1 = forebay::testing::exif_segment(6);
      files.push_back(make_jpeg(recipe));
    }
  }
  return files;
}

TEST_CASE("regions of every plain kind of file come by the index as without it") {
  constexpr int kRegions = kSanitized ? 8 : 40;
  const auto files = large_files();
  Indexed indexed(files);
  CHECK(indexed.files() == files.size());
  Random random(61);
  int by_index = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    const bool is_turned = i % 4 == 1;  // because of its EXIF orientation
    const int width = 333 + std::array{0, 1, 7, 0}[i % 4];
    const forebay::make::ImageSize size{is_turned ? 290 : width, is_turned ? width : 290};
    for (int k = 0; k < kRegions; ++k) {
      const Box region = forebay::testing::random_region(random, size);
      CAPTURE(forebay::testing::text_of(region));
      by_index += indexed.compare(files[i], region, k % 4 == 0) ? 1 : 0;
    }
    if (!is_turned) CHECK(indexed.compare(files[i], {200, 200, 210, 210}));
    CHECK_FALSE(indexed.compare(files[i], {0, 0, size.width, size.height}));  // nothing to skip
  }
  MESSAGE(by_index << " by the index");
  CHECK(by_index > static_cast<int>(files.size()) * kRegions / 2);
}

TEST_CASE("streams of random symbols, with stuffing, restarts and values of all sizes, come by the index too") {
  constexpr int kFiles = kSanitized ? 12 : 60;
  Random random(62);
  std::vector<Bytes> files;
  for (int i = 0; i < kFiles; ++i) {
    forebay::testing::StreamRecipe recipe{.width = 260 + i, .height = 250};
    if (i % 3 == 0) recipe.sampling = {{1, 1}};
    if (i % 3 == 1) recipe.sampling = {{2, 1}, {1, 1}, {1, 1}};
    recipe.restart_interval = std::array{0, 1, 5, 40}[static_cast<std::size_t>(i) % 4];
    files.push_back(forebay::testing::random_stream(recipe, random));
  }
  Indexed indexed(files);
  int by_index = 0;
  for (const Bytes& file : files) {
    for (int k = 0; k < 6; ++k) {
      by_index += indexed.compare(file, forebay::testing::random_region(random, {260, 250})) ? 1 : 0;
    }
  }
  MESSAGE(indexed.files() << " of " << files.size() << " files known, " << by_index << " regions by the index");
  CHECK(indexed.files() > static_cast<std::uint64_t>(kFiles) / 3);
  CHECK(by_index > kFiles / 2);
}

TEST_CASE("rows of more bytes than are looked at together come by the index") {
  for (const int interval : {0, 50}) {
    const Bytes file = make_jpeg(recipe_of(5000, 130, {1, 1}, interval));
    REQUIRE(file.size() > 17 * 20'000);  // rows of blocks
    Indexed indexed({file});
    CHECK(indexed.compare(file, {0, 60, 5000, 90}));
    CHECK(indexed.compare(file, {100, 100, 4990, 130}));
    CHECK(indexed.compare(file, {4000, 50, 4010, 60}, true));
  }
}

TEST_CASE("a file that has changed, anywhere, is decoded without the index") {
  const Bytes good = make_jpeg(recipe_of(320, 240, {2, 2}, 0));
  Indexed indexed({good});
  const Box low{100, 200, 200, 230};
  CHECK(indexed.compare(good, low));
  Random random(63);
  int compared = 0;
  for (int i = 0; i < (kSanitized ? 60 : 400); ++i) {
    Bytes other = good;
    forebay::testing::damage(other, random);
    if (other == good || other.size() < 8) continue;
    JpegDecoder turbo;
    try {
      const auto size = turbo.open(other, {});
      if (size.width != 320 || size.height != 240) continue;
    } catch (const forebay::SampleError&) {
      continue;
    }
    CHECK_FALSE(indexed.compare(other, low));
    ++compared;
  }
  MESSAGE(compared << " files compared");
  CHECK(compared > (kSanitized ? 15 : 100));
  CHECK(indexed.compare(good, low));
}

TEST_CASE("what an index holds of a file does not depend on the processor") {
  const auto kernels = forebay::jpeg::supported_pixel_kernels();
  for (const Bytes& file : large_files()) {
    const Bytes expected = points_of(file);
    CHECK_FALSE(expected.empty());
    for (const auto& some : kernels) {
      JpegDecoder decoder(&some);
      (void)decoder.open(file, {});
      CHECK(decoder.locate() == expected);
    }
  }
}

TEST_CASE("small files, and those that libjpeg decodes, are not in an index") {
  CHECK(points_of(make_jpeg(recipe_of(40, 40, {2, 2}, 0))).empty());
  Recipe progressive = recipe_of(320, 240, {2, 2}, 0);
  progressive.progressive = true;
  CHECK(points_of(make_jpeg(progressive)).empty());
  Bytes cut = make_jpeg(recipe_of(320, 240, {2, 2}, 0));
  CHECK_FALSE(points_of(cut).empty());
  cut.resize(cut.size() - 50);
  CHECK(points_of(cut).empty());
  JpegDecoder turbo;
  const Bytes file = make_jpeg(recipe_of(320, 240, {2, 2}, 0));
  (void)turbo.open(file, {});
  CHECK(turbo.locate().empty());
}

TEST_CASE("a hostile index leads to no access outside the file, whatever it says") {
  const TemporaryDirectory dir;
  const std::string path = (dir / "x.points").string();
  Random random(64);
  int decoded = 0;
  for (const int interval : {0, 5}) {
    const Bytes file = make_jpeg(recipe_of(300, 260, {2, 2}, interval));
    const Bytes right = points_of(file);
    for (int round = 0; round < (kSanitized ? 60 : 400); ++round) {
      Bytes points = right;
      const std::uint64_t changes = round % 2 == 0 ? 4 : points.size();
      for (std::uint64_t i = 0; i < changes; ++i) {
        points[random.below(points.size())] = forebay::testing::any_byte(random);
      }
      DecodeIndexWriter writer;
      writer.add(forebay::jpeg::key_of(file), points);
      writer.save(path);
      const DecodeIndex index(path);
      JpegDecoder decoder(twin_kernels(), &index);
      Image image;
      (void)decoder.open(file, {});
      decoder.decode(forebay::testing::random_region(random, {300, 260}), 1, image);
      decoded += decoder.was_indexed() ? 1 : 0;
    }
  }
  MESSAGE(decoded << " decoded by what it says");
  CHECK(decoded > (kSanitized ? 10 : 80));  // many were not refused as a whole
}

TEST_CASE("points of another frame are not taken for a file's") {
  const TemporaryDirectory dir;
  const std::string path = (dir / "x.points").string();
  const Bytes file = make_jpeg(recipe_of(300, 260, {2, 2}, 0));
  Bytes points = points_of(make_jpeg(recipe_of(400, 260, {2, 2}, 0)));
  DecodeIndexWriter writer;
  writer.add(forebay::jpeg::key_of(file), std::move(points));
  writer.save(path);
  const DecodeIndex index(path);
  JpegDecoder decoder(twin_kernels(), &index);
  Image image;
  (void)decoder.open(file, {});
  decoder.decode({200, 200, 250, 250}, 1, image);
  CHECK_FALSE(decoder.was_indexed());
}

// The file of a decode index: how entries are found, and what happens if it is damaged or
// unreadable.

namespace fs = std::filesystem;

void write(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST_CASE("among thousands of files each is found by its key, and of the same ones the first stays") {
  constexpr std::uint32_t kBits = 7;  // bits of a key by which so many files are looked up
  constexpr std::size_t kOthers = 5000;
  const Bytes base = make_jpeg(recipe_of(250, 200, {2, 2}, 3));
  const auto bucket_of = [](const Bytes& file) { return forebay::jpeg::key_of(file).hash >> (64 - kBits); };
  std::vector<Bytes> files;  // files in the first bucket, in the last one, and in two others
  for (const std::uint64_t bucket : {0, 127, 1, 64}) {
    std::uint32_t number = 0;
    while (bucket_of(with_comment(base, number)) != bucket) REQUIRE(++number < 10'000);
    files.push_back(with_comment(base, number));
  }
  Random random(65);
  const Bytes wrong(points_of(base).size());
  std::vector<std::pair<forebay::jpeg::JpegKey, Bytes>> others;
  for (std::size_t i = 0; i < kOthers; ++i) {
    others.emplace_back(forebay::jpeg::JpegKey{.hash = random.below(~std::uint64_t{0}), .size = 100}, Bytes(i % 50));
  }
  others.emplace_back(forebay::jpeg::JpegKey{.hash = 0, .size = 100}, wrong);
  others.emplace_back(forebay::jpeg::JpegKey{.hash = ~std::uint64_t{0}, .size = 100}, wrong);
  for (const Bytes& file : files) others.emplace_back(forebay::jpeg::key_of(file), wrong);  // duplicates
  Indexed indexed(files, others);
  CHECK(indexed.files() == files.size() + kOthers + 2);
  const Bytes header = forebay::testing::read_bytes(indexed.path());
  CHECK(std::to_integer<std::uint32_t>(header[12]) == kBits);
  for (const Bytes& file : files) {
    CAPTURE(bucket_of(file));
    CHECK(indexed.compare(file, {20, 150, 120, 190}));
  }
  for (std::uint32_t number = 20'000; number < 20'050; ++number) {
    CHECK_FALSE(indexed.compare(with_comment(base, number), {20, 150, 120, 190}));
  }
}

TEST_CASE("damage to an index is found when it is opened, or where it is used, and pixels stay right") {
  std::vector<Bytes> files;
  for (int i = 0; i < 3; ++i) files.push_back(make_jpeg(recipe_of(250 + i, 200, {2, 2}, i)));
  Indexed indexed(files);
  const Bytes good = forebay::testing::read_bytes(indexed.path());
  const Box low{20, 150, 120, 190};
  int refused = 0;
  int unused = 0;
  for (std::size_t at = 0; at < good.size(); at += at < 200 ? 1 : (kSanitized ? 61 : 13)) {
    CAPTURE(at);
    Bytes bad = good;
    bad[at] ^= std::byte{0x10};
    write(indexed.path(), bad);
    try {
      indexed.open();
    } catch (const forebay::Error& error) {
      CHECK(forebay::testing::contains(error.what(), indexed.path()));
      ++refused;
      continue;
    }
    for (const Bytes& file : files) unused += indexed.compare(file, low) ? 0 : 1;
  }
  CHECK(refused > 40);
  CHECK(unused > 20);
  write(indexed.path(), good);
  indexed.open();
  for (const Bytes& file : files) CHECK(indexed.compare(file, low));
  // The file is truncated while it is in use.
  fs::resize_file(indexed.path(), good.size() / 2);
  for (const Bytes& file : files) indexed.compare(file, low);
  CHECK_THROWS_WITH_AS(indexed.open(), doctest::Contains("its size is not what its header says"), forebay::Error);
  write(indexed.path(), std::span(good).first(20));
  CHECK_THROWS_WITH_AS(indexed.open(), doctest::Contains("not a decode index of Forebay"), forebay::Error);
}

TEST_CASE("an index that can no longer be read is given up, once and with a warning") {
  const Bytes file = make_jpeg(recipe_of(300, 260, {2, 2}, 0));
  const Indexed indexed({file});
  const Bytes good = forebay::testing::read_bytes(indexed.path());
  std::vector<std::string> warnings;
  DecodeIndex index(indexed.path(), [&](const std::string& text) { warnings.push_back(text); });
  index.read_ahead();
  const auto comes_by_index = [&] {
    JpegDecoder decoder(twin_kernels(), &index);
    Image image;
    (void)decoder.open(file, {});
    decoder.decode({200, 200, 250, 250}, 1, image);
    return decoder.was_indexed();
  };
  CHECK(comes_by_index());
  CHECK(warnings.empty());
  fs::resize_file(indexed.path(), good.size() / 2);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(comes_by_index());
  REQUIRE(warnings.size() == 1);
  CHECK(forebay::testing::contains(warnings[0], "decode index " + indexed.path() + ": ended at byte"));
  CHECK(forebay::testing::contains(warnings[0], "(read 4 times); from here on images are decoded without it"));
  write(indexed.path(), good);
  CHECK_FALSE(comes_by_index());
}

TEST_CASE("a header that asks for more memory than its files need is refused before memory is taken") {
  const Indexed indexed({make_jpeg(recipe_of(300, 260, {2, 2}, 0))});
  const Bytes good = forebay::testing::read_bytes(indexed.path());
  // Magic and version, bits, files, bytes of records, checksum of the counts, checksum of the
  // header.
  constexpr std::uint32_t kBits = 12;
  const std::array<std::uint64_t, 3> rest{};
  Bytes forged(good.begin(), good.begin() + 12);
  const auto append = [&](std::span<const std::byte> bytes) {
    forged.insert(forged.end(), bytes.begin(), bytes.end());
  };
  append(std::as_bytes(std::span(&kBits, 1)));
  append(std::as_bytes(std::span(rest)));
  const std::uint64_t sum = XXH3_64bits(forged.data(), forged.size());
  append(std::as_bytes(std::span(&sum, 1)));
  forged.resize(forged.size() + ((std::size_t{1} << kBits) + 1) * sizeof(std::uint64_t));
  write(indexed.path(), forged);
  CHECK_THROWS_WITH_AS(DecodeIndex(indexed.path()), doctest::Contains("its size is not what its header says"),
                       forebay::Error);
}

}  // namespace
}  // namespace forebay::test_jpeg_index
