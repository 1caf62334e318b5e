#include "archive/read_back.hpp"
#include "archive/sample_packer.hpp"
#include "base/crc32c.hpp"
#include "jpeg_plain_files.hpp"
#include "make/image_decoder.hpp"
#include "make/packed_file.hpp"
#include "pack_support.hpp"
#include "support.hpp"

// Packed datasets of JPEG files: which are packed as coefficients, how they decode, and that all
// are restored.

namespace forebay::test_packed_files {

using namespace forebay::archive;
using namespace forebay::data;
using namespace forebay::make;
using namespace forebay::order;
using namespace forebay::testing;

namespace {

namespace fs = std::filesystem;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// JPEG files that can be packed, and others: progressive, arithmetic, truncated, damaged, and files
// that are not images.
struct JpegFolder {
  // Uses every `one_in`-th of the plain files.
  explicit JpegFolder(std::size_t one_in = 1) {
    const auto all = plain_files();
    for (std::size_t i = 0; i < all.size(); i += one_in) add(all[i]);
    for (int orientation = 1; orientation <= 8; ++orientation) {
      add(make_jpeg({.width = 90, .height = 50, .app1 = exif_segment(orientation)}));
    }
    plain = files;
    std::vector<std::byte> surplus = make_jpeg({});
    surplus.insert(surplus.end(), 100, std::byte{7});
    add(surplus);
    add(make_jpeg({.progressive = true}));
    add(make_jpeg({.arithmetic = true}));
    std::vector<std::byte> damaged = make_jpeg({.width = 200, .height = 100});
    damaged.resize(damaged.size() / 2);
    add(damaged);
    add({std::byte{0xFF}, std::byte{0xD8}, std::byte{0xFF}});
    add({std::byte{'n'}, std::byte{'o'}});
    options = options_for(dir / "in");
  }
  void add(const std::vector<std::byte>& bytes) {
    std::string name = std::to_string(files++);
    name.insert(0, 4 - name.size(), '0');
    write_file(dir / ("in/" + std::string(files % 2 == 0 ? "a/" : "b/") + name + ".jpg"), text_of(bytes));
  }

  TemporaryDirectory dir;
  DatasetOptions options;
  std::size_t files = 0;
  std::size_t plain = 0;
};

std::string pixels_of(ImageDecoder& decoder, const std::string& bytes) {
  Image image;
  try {
    const ImageSize size = decoder.open(bytes_of(bytes), {});
    decoder.decode({0, 0, size.width, size.height}, 1, image);
  } catch (const SampleError&) {
    return "no image";
  }
  return std::to_string(image.width) + "x" +
         std::string(image.pixels.begin(), image.pixels.begin() + 3 * image.width * image.height);
}

}  // namespace

TEST_CASE("JPEG files are packed as coefficients where that gives them back, and all come back") {
  const JpegFolder folder(kSanitized ? 10 : 4);
  const auto dataset = build_dataset(folder.options);
  PackSettings settings = pack_settings(folder.dir / "out", folder.options);
  settings.shard_bytes = 32 << 10U;
  const PackReport report = pack_dataset(*dataset, settings, {});
  CHECK(report.shards > 2);
  CHECK(report.tally.coefficients >= folder.plain);
  CHECK(report.tally.as_is >= 5);
  CHECK(report.tally.coefficients + report.tally.as_is == folder.files);
  CHECK(check_pack(folder.dir / "out", 2, {}).damaged.empty());
  const UnpackReport unpacked = unpack(folder.dir / "out", folder.dir / "again", 3, {});
  CHECK(unpacked.failed.empty());
  CHECK(files_below(folder.dir / "again") == files_below(folder.dir / "in"));

  const auto packed = build_dataset(options_for(folder.dir / "out"));
  TableCache tables([&](std::uint32_t key) { return packed->tables(key); });
  ImageDecoder of_files;
  ImageDecoder of_packed(nullptr, nullptr, &tables);
  REQUIRE(packed->size() == dataset->size());
  for (std::uint64_t id = 0; id < packed->size(); ++id) {
    CAPTURE(SampleNames(*packed).of(id));
    CHECK(pixels_of(of_packed, read_sample(*packed, id)) == pixels_of(of_files, read_sample(*dataset, id)));
  }
  // A saved index contains the tables.
  const auto restored = restore_dataset(packed->serialize(), "memory");
  const auto expected = packed->tables(1);
  CHECK(std::ranges::equal(restored->tables(1), expected));
  CHECK_FALSE(expected.empty());
  CHECK(dataset->tables(1).empty());
}

TEST_CASE("shards with coefficients do not depend on threads, on parts, or on what was there") {
  const JpegFolder folder(16);
  const auto dataset = build_dataset(folder.options);
  PackSettings settings = pack_settings(folder.dir / "once", folder.options);
  settings.shard_bytes = 16 << 10U;
  (void)pack_dataset(*dataset, settings, {});
  const auto expected = shards_below(folder.dir / "once");
  settings.out = folder.dir / "parts";
  settings.threads = 1;
  settings.parts = 2;
  (void)pack_dataset(*dataset, settings, {});
  fs::remove(folder.dir / "parts" / kPackTables);
  settings.part = 1;
  settings.threads = 5;
  (void)pack_dataset(*dataset, settings, {});
  CHECK(shards_below(folder.dir / "parts") == expected);
  write_file(folder.dir / "parts" / kPackTables, "no tables");
  CHECK(contains(error_of([&] { return pack_dataset(*dataset, settings, {}); }), "codec.tables"));
}

TEST_CASE("a shard that was packed with other tables of the same size is refused, and packed again") {
  const JpegFolder folder(16);
  const auto dataset = build_dataset(folder.options);
  PackSettings settings = pack_settings(folder.dir / "out", folder.options);
  settings.shard_bytes = 16 << 10U;
  const std::uint32_t shards = pack_dataset(*dataset, settings, {}).shards;
  REQUIRE(shards > 1);
  const auto expected = files_below(folder.dir / "out");
  // With tables of the same length that are equally valid.
  std::string tables = expected.at(std::string(kPackTables));
  const std::size_t end = tables.size() - sizeof(std::uint32_t);
  tables[end - 1] = static_cast<char>(tables[end - 1] ^ 1);
  const std::uint32_t key = crc32c(bytes_of(tables.substr(0, end)));
  for (std::size_t i = 0; i < sizeof key; ++i) tables[end + i] = static_cast<char>(key >> 8 * i);
  settings.out = folder.dir / "other";
  fs::create_directories(settings.out);
  fs::copy_file(folder.dir / "out" / kPackManifest, settings.out / kPackManifest);
  write_file(settings.out / kPackTables, tables);
  (void)pack_dataset(*dataset, settings, {});
  const std::string name = pack_shard_name(1, shards);
  fs::copy_file(folder.dir / "other" / name, folder.dir / "out" / name, fs::copy_options::overwrite_existing);
  const std::string problem = build_error(options_for(folder.dir / "out"));
  CHECK(contains(problem, name + " was packed with other tables than 00000-of-"));
  CHECK(contains(error_of([&] { return check_pack(folder.dir / "out", 2, {}); }), "other tables"));
  settings.out = folder.dir / "out";
  CHECK(pack_dataset(*dataset, settings, {}).written == 1);
  CHECK(files_below(folder.dir / "out") == expected);
}

TEST_CASE("as they are, JPEG files have no tables and are what they were") {
  const JpegFolder folder(16);
  const auto dataset = build_dataset(folder.options);
  PackSettings settings = pack_settings(folder.dir / "out", folder.options);
  settings.coefficients = false;
  const PackReport report = pack_dataset(*dataset, settings, {});
  CHECK(report.tally.coefficients == 0);
  CHECK(report.tally.as_is == folder.files);
  const auto packed = build_dataset(options_for(folder.dir / "out"));
  CHECK(packed->tables(0).empty());
  CHECK(contents_of(*packed) == contents_of(*dataset));
}

TEST_CASE("a shard whose checksums are right, but whose coefficients are others, is found out by the original's hash") {
  const JpegFolder folder(16);
  const auto dataset = build_dataset(folder.options);
  (void)pack_dataset(*dataset, pack_settings(folder.dir / "out", folder.options), {});
  const std::string name = "00000-of-00001.fbpack";
  const ReadShard shard = read_shard_back(folder.dir / "out", name);
  const auto at = std::ranges::max_element(shard.index.length) - shard.index.length.begin();
  const auto sample = static_cast<std::size_t>(at);
  REQUIRE(shard.originals.stored[sample] == PackStored::coefficients);
  std::string bytes = read_text(folder.dir / "out" / name);
  const std::size_t begin = shard.index.offset[sample];
  const std::size_t length = shard.index.length[sample];
  for (const std::size_t place : {length / 2, length - 40}) {
    std::string changed = bytes;
    changed[begin + place] = static_cast<char>(changed[begin + place] ^ 4);
    const std::uint32_t sum = masked_crc32c(crc32c(bytes_of(std::string_view(changed).substr(begin, length))));
    std::memcpy(changed.data() + begin + length, &sum, sizeof sum);
    write_file(folder.dir / "out" / name, changed);
    const PackCheck check = check_pack(folder.dir / "out", 2, {});
    REQUIRE(check.damaged.size() == 1);
    CHECK(contains(check.damaged[0].reason, "byte " + std::to_string(begin)));
  }
}

}  // namespace forebay::test_packed_files
