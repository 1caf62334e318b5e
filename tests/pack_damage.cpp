#include <random>

#include "archive/read_back.hpp"
#include "data/pack_coder.hpp"
#include "data/pack_shard.hpp"
#include "detection_support.hpp"
#include "pack_support.hpp"
#include "shard_bytes.hpp"
#include "support.hpp"

// Damaged and hostile shards end in an error that names the file and the byte, or in a bad sample,
// and never in other bytes.

namespace forebay::test_pack_damage {

using namespace forebay::archive;
using namespace forebay::data;
using namespace forebay::testing;

namespace {

namespace fs = std::filesystem;

constexpr const char* kOnly = "00000-of-00001.fbpack";

// Images with masks and boxes, in one shard.
struct Packed {
  explicit Packed(int images = 6) {
    for (int i = 0; i < images; ++i) {
      const std::string stem = std::to_string(i);
      write_file(dir / "in/JPEGImages" / (stem + ".jpg"),
                 "photo " + stem + std::string(100, static_cast<char>('a' + i)));
      write_file(dir / "in/Masks" / (stem + ".png"), "mask " + stem);
      write_file(dir / "in/Annotations" / (stem + ".xml"), annotation(object("dog") + object("cat")));
    }
    DatasetOptions original = options_for(dir / "in", "voc");
    original.samples = SampleUnit::images;
    original.fields = {boxes_field(), field_options("mask", FieldKind::mask, "Masks/{stem}.png")};
    options = packed_options(original, dir / "out", 1 << 20U);
    bytes = read_text(file());
  }
  [[nodiscard]] fs::path file() const { return dir / "out" / kOnly; }
  void write(const std::string& changed) const { replace_file(file(), changed); }

  TemporaryDirectory dir;
  DatasetOptions options;
  std::string bytes;
};

// The shard with another index.
std::string with_raw_index(const std::string& bytes, std::string_view compressed, std::uint64_t raw) {
  return with_part(bytes, &PackHeader::index, compressed, raw);
}

std::string with_index(const std::string& bytes, const PackIndex& index) {
  std::uint64_t raw = 0;
  const std::vector<std::byte> part = pack_index_bytes(index, raw);
  return with_raw_index(bytes, {reinterpret_cast<const char*>(part.data()), part.size()}, raw);
}

std::string refusal(const DatasetOptions& options) { return build_error(options); }

}  // namespace

TEST_CASE("a changed byte anywhere is an error with the file's name and a byte, or a bad sample, or means nothing") {
  const Packed packed;
  const auto sound = build_dataset(packed.options);
  const auto expected = contents_of(*sound);
  std::size_t refused = 0;
  std::size_t bad = 0;
  std::size_t harmless = 0;
  for (std::size_t at = 0; at < packed.bytes.size(); at += at < 200 || kSanitized ? (kSanitized ? 13 : 1) : 3) {
    std::string changed = packed.bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    packed.write(changed);
    const std::string problem = refusal(packed.options);
    if (!problem.empty()) {
      ++refused;
      CHECK(contains(problem, kOnly));
      CHECK(contains(problem, ": byte "));
      continue;
    }
    const auto dataset = build_dataset(packed.options);
    std::size_t differ = 0;
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      Reading reading;
      const std::string damage = error_of([&] {
        dataset->read(id, reading);
        return 0;
      });
      differ += damage.empty() ? 0 : 1;
      if (!damage.empty()) CHECK(contains(damage, "CRC-32C"));
    }
    CHECK(differ <= 1);
    if (differ == 0) CHECK(contents_of(*dataset) == expected);
    ++(differ == 0 ? harmless : bad);
    if (differ == 1 && bad % 64 == 1) {
      const PackCheck check = check_pack(packed.dir / "out", 1, {});
      REQUIRE(check.damaged.size() == 1);
      CHECK(contains(check.damaged[0].reason, "byte "));
    }
  }
  CHECK(refused > 0);
  CHECK(bad > 0);
  CHECK(harmless > 0);  // padding
}

TEST_CASE("a damaged sample leaves the others") {
  const Packed packed;
  const ReadShard shard = read_shard_back(packed.dir / "out", kOnly);
  std::string changed = packed.bytes;
  changed[shard.index.offset[2] + 5] ^= 1;
  packed.write(changed);
  const PackCheck check = check_pack(packed.dir / "out", 2, {});
  REQUIRE(check.damaged.size() == 1);
  CHECK(check.damaged[0].path == std::string(kOnly) + "[record 2, JPEGImages/2.jpg]");
  CHECK(contains(check.damaged[0].reason, "byte " + std::to_string(shard.index.offset[2])));
  const UnpackReport report = unpack(packed.dir / "out", packed.dir / "again", 2, {});
  CHECK(report.files == 10);
  REQUIRE(report.failed.size() == 1);
  CHECK(contains(report.failed[0].path, "2.jpg"));
}

TEST_CASE("files that are cut, of other versions, renamed, missing or of other sets are refused by name") {
  const Packed packed;
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{4096}, packed.bytes.size() - 1}) {
    packed.write(packed.bytes.substr(0, size));
    CHECK(contains(refusal(packed.options), std::string(kOnly) + ": byte " + std::to_string(size)));
  }
  packed.write(with_header(packed.bytes, [](PackHeader& header) { header.version = 2; }));
  CHECK(contains(refusal(packed.options), "version 2"));
  packed.write(with_header(packed.bytes, [](PackHeader& header) { header.count = 2; }));
  CHECK(contains(refusal(packed.options), "00000-of-00002.fbpack, renamed"));
  packed.write(packed.bytes);
  fs::rename(packed.file(), packed.dir / "out/00000-of-00002.fbpack");
  CHECK(contains(refusal(packed.options), "renamed"));
  fs::rename(packed.dir / "out/00000-of-00002.fbpack", packed.file());
  CHECK(refusal(packed.options) == "");

  const TemporaryDirectory dir;
  for (int i = 0; i < 5; ++i) write_file(dir / ("in/a/" + std::to_string(i) + ".jpg"), std::string(50, 'x'));
  const DatasetOptions several = packed_options(options_for(dir / "in"), dir / "out");
  const std::string middle = read_text(dir / "out/00002-of-00005.fbpack");
  fs::remove(dir / "out/00002-of-00005.fbpack");
  CHECK(contains(refusal(several), "shard 00002-of-00005.fbpack is missing"));
  write_file(dir / "out/00002-of-00005.fbpack", with_header(middle, [](PackHeader& header) { header.set.low ^= 1; }));
  CHECK(contains(refusal(several), "another packed set"));
  DatasetOptions one = several;
  one.path = (dir / "out/00000-of-00005.fbpack").string();
  CHECK(contains(refusal(one), "one shard"));
}

TEST_CASE("indexes whose numbers are impossible are refused, although every checksum is right") {
  const Packed packed;
  const PackIndex sound = read_shard_back(packed.dir / "out", kOnly).index;
  packed.write(with_index(packed.bytes, sound));
  CHECK(refusal(packed.options) == "");
  const auto refused = [&](auto&& change) {
    PackIndex index = sound;
    change(index);
    packed.write(with_index(packed.bytes, index));
    const std::string problem = refusal(packed.options);
    CHECK(contains(problem, kOnly));
    return contains(problem, ": byte ");
  };
  CHECK(refused([](PackIndex& index) { index.offset[1] = 0; }));
  CHECK(refused([](PackIndex& index) { index.offset[1] = UINT64_MAX & ~std::uint64_t{15}; }));
  CHECK(refused([](PackIndex& index) { index.offset[1] += 1; }));
  CHECK(refused([](PackIndex& index) { index.offset[2] = index.offset[1] + 16; }));
  CHECK(refused([](PackIndex& index) { std::swap(index.offset[1], index.offset[2]); }));
  CHECK(refused([](PackIndex& index) {
    index.offset[2] = index.offset[1];
    --index.length[2];
  }));
  CHECK(refused([](PackIndex& index) {
    index.offset[2] = index.offset[1];
    --index.fields[1].lengths[2];
  }));
  CHECK(refused([](PackIndex& index) { index.fields.resize(5000, index.fields[1]); }));
  CHECK(refused([](PackIndex& index) { index.length[1] = UINT32_MAX; }));
  CHECK(refused([](PackIndex& index) { index.length[5] = 1 << 20U; }));
  CHECK(refused([](PackIndex& index) { index.length[1] = 0; }));
  CHECK(refused([](PackIndex& index) { index.kind[1] = 7; }));
  CHECK(refused([](PackIndex& index) { index.label[1] = 2; }));
  CHECK(refused([](PackIndex& index) { index.label[1] = -2; }));
  CHECK(refused([](PackIndex& index) { index.label.pop_back(); }));
  CHECK(refused([](PackIndex& index) { index.keys.add("one more"); }));
  CHECK(refused([](PackIndex& index) { index.has_regions = true; }));
  CHECK(refused([](PackIndex& index) { index.fields[0].ends[3] = 1 << 20U; }));
  CHECK(refused([](PackIndex& index) { index.fields[0].ends.clear(); }));
  CHECK(refused([](PackIndex& index) { index.fields[1].lengths[3] = 1 << 30U; }));
  CHECK(refused([](PackIndex& index) { index.fields[1].field.kind = static_cast<FieldKind>(99); }));
  CHECK(refused([](PackIndex& index) { index.fields[1].field.shape = {-1}; }));
  CHECK(refused([](PackIndex& index) {
    index.kinds[0] = {.encoding = Encoding::raw, .width = 1 << 30, .height = 1 << 30, .channels = 3};
  }));
  CHECK(refused([](PackIndex& index) { index.kinds[0].encoding = static_cast<Encoding>(9); }));

  // A sample that claims to share the previous record, but with a different original.
  PackIndex index = sound;
  index.offset[2] = index.offset[1];
  packed.write(with_index(packed.bytes, index));
  const PackCheck check = check_pack(packed.dir / "out", 1, {});
  REQUIRE(check.damaged.size() == 1);
  CHECK(contains(check.damaged[0].reason, "another original"));
  packed.write(with_header(packed.bytes, [](PackHeader& header) { header.first = UINT64_MAX - 3; }));
  CHECK(contains(refusal(packed.options), "numbers are impossible"));
}

TEST_CASE("rows and names of a byte each, which take more in memory, are refused before they do") {
  std::vector<std::byte> bytes(100);
  bytes[0] = std::byte{90};
  const auto refused = [&](auto value, std::uint64_t most) {
    PackReader reader(bytes, most);
    return contains(error_of([&] {
                      reader(value);
                      return 0;
                    }),
                    "its index is damaged at byte 1 of 100");
  };
  CHECK(refused(std::vector<std::string>(), 90 * sizeof(std::string) - 1));
  CHECK_FALSE(refused(std::vector<std::string>(), 90 * sizeof(std::string)));
  CHECK(refused(std::vector<std::uint64_t>(), 719));
  CHECK_FALSE(refused(std::vector<std::uint64_t>(), 720));
  CHECK(refused(StringTable(), 719));
  CHECK_FALSE(refused(StringTable(), 720));
}

TEST_CASE("no index, however it is damaged, does harm") {
  const Packed packed;
  const ReadShard shard = read_shard_back(packed.dir / "out", kOnly);
  const std::uint64_t at = shard.shard.header.index.offset;
  std::mt19937_64 random(20261123);  // NOLINT(bugprone-random-generator-seed)
  const PackPart part = shard.shard.header.index;
  const std::string sound = inflated_part(std::string_view(packed.bytes).substr(at, part.bytes), part.raw_bytes);
  std::size_t decoded = 0;
  for (int round = 0; round < (kSanitized ? 150 : 800); ++round) {
    // Changes are made before compression: single bits, random bytes, truncation.
    std::string raw = sound;
    const auto changes = 1 + random() % 3;
    for (std::uint64_t i = 0; i < changes; ++i) {
      char& byte = raw[random() % raw.size()];
      byte = static_cast<char>(random() % 2 == 0 ? random() : static_cast<unsigned char>(byte) ^ (1U << random() % 8));
    }
    if (random() % 8 == 0) raw.resize(random() % raw.size());
    const std::string changed =
        with_header(with_raw_index(packed.bytes, deflated_part(raw), raw.size()), [&](PackHeader& header) {
          if (random() % 8 == 0) header.index.raw_bytes = random() % 4096;
          if (random() % 16 == 0) header.samples = random();
        });
    packed.write(changed);
    const std::string problem = error_of([&] {
      const auto dataset = build_dataset(packed.options);
      (void)contents_of(*dataset);
      return 0;
    });
    // A section of the configuration may not fit the fields that such an index claims.
    const bool is_said = contains(problem, "byte ") || contains(problem, "fields.") || contains(problem, "no sample") ||
                         contains(problem, "impossible size");
    CAPTURE(problem);
    if (!problem.empty()) CHECK(is_said);
    decoded += contains(problem, "decompressed") ? 0 : 1;
  }
  CHECK(decoded > (kSanitized ? 100U : 500U));  // most got through decompression
}

TEST_CASE("neither a sparse file nor a part that inflates to more than any has takes memory") {
  const Packed packed;
  const auto refused = [&](auto&& change) {
    std::string bytes = with_header(packed.bytes, change);
    packed.write(bytes);
    PackHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    fs::resize_file(packed.file(), header.file_bytes);  // sparse
    const std::string problem = refusal(packed.options);
    CHECK(contains(problem, kOnly));
    return problem;
  };
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 42U;
  for (PackPart PackHeader::*part : {&PackHeader::tables, &PackHeader::index, &PackHeader::originals}) {
    CHECK(contains(refused([&](PackHeader& header) {
                     header.file_bytes = 2 * kHuge;
                     header.*part = {.offset = 4096, .bytes = kHuge, .raw_bytes = kHuge};
                   }),
                   "larger than any can be"));
  }
  CHECK(contains(refused([&](PackHeader& header) {
                   header.file_bytes = 2 * kHuge;
                   header.index.bytes = std::uint64_t{1} << 30U;
                   header.index.raw_bytes = std::uint64_t{3} << 30U;
                 }),
                 "larger than any can be"));
  packed.write(packed.bytes);
  PackIndex index = read_shard_back(packed.dir / "out", kOnly).index;
  index.kinds.assign(RecordTable::kMostKinds + std::size_t{1}, {});
  packed.write(with_index(packed.bytes, index));
  CHECK(contains(refusal(packed.options), "more kinds or samples than there can be"));
}

TEST_CASE("names of shards are put into the order of their numbers, also where those have six digits") {
  std::vector<std::string> names;
  for (const std::uint32_t number : {123'455U, 10'001U, 100'000U, 10'000U, 0U}) {
    names.push_back(pack_shard_name(number, 123'456));
  }
  sort_pack_names(names);
  std::vector<std::string> expected;
  for (const std::uint32_t number : {0U, 10'000U, 10'001U, 100'000U, 123'455U}) {
    expected.push_back(pack_shard_name(number, 123'456));
  }
  CHECK(names == expected);
}

TEST_CASE("sets of more shards than are read at a time are read whole and in order") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 50);
  const DatasetOptions packed = packed_options(options, dir / "out", 1);
  const auto dataset = build_dataset(packed);
  CHECK(fs::exists(dir / "out/00049-of-00050.fbpack"));
  CHECK(contents_of(*dataset) == contents_of(*build_dataset(options)));
}

}  // namespace forebay::test_pack_damage
