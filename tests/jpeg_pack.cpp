#include "base/crc32c.hpp"
#include "jpeg_damage.hpp"
#include "jpeg_plain_files.hpp"
#include "jpeg_samplings.hpp"
#include "pack/packed_coefficients.hpp"
#include "pack/plain_header.hpp"
#include "test.hpp"

// Packs and unpacks JPEG files: the same bytes, the same coefficients, and no harm from damage.
namespace forebay::test_jpeg_pack {
namespace {

using namespace forebay::jpeg;
using namespace forebay::pack;
using namespace forebay::testing;
using Bytes = std::vector<std::byte>;

McuRegion any_region(Random& random, const JpegFrame& frame) {
  const auto left = below(random, frame.mcus_across);
  const auto top = below(random, frame.mcus_down);
  return {left, top, left + 1 + below(random, frame.mcus_across - left),
          top + 1 + below(random, frame.mcus_down - top)};
}

// Whole blocks, then extents.
std::vector<std::int16_t> content_of(CoefficientRow& row, const JpegFrame& frame, bool extents) {
  std::vector<std::int16_t> content;
  for (std::size_t k = 0; k < row.components(); ++k) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(frame.component[k].v); ++r) {
      const std::int16_t* const blocks = row.blocks(k, r);
      content.insert(content.end(), blocks, blocks + row.stride(k) * kBlockSize);
      for (std::size_t x = 0; extents && x < row.width(k); ++x) content.push_back(row.extents(k, r)[x]);
    }
  }
  return content;
}

// Whether the coefficients of a region equal those that libjpeg reads, with all kernels.
bool same_coefficients(const Bytes& file, const Bytes& packed_file, const PackTables& tables, const McuRegion& region,
                       std::size_t components) {
  forebay::jpeg::LibjpegCoefficients expected;
  if (!expected.open(file)) return false;
  const JpegFrame& frame = expected.frame();
  PackedJpeg parts;
  parts.open(packed_file, tables);
  CoefficientRow wanted;
  CoefficientRow found;
  std::optional<std::vector<std::int16_t>> first;
  for (const PackKernels& kernels : forebay::pack::supported_pack_kernels()) {
    PackedCoefficients coefficients(kernels);
    coefficients.open(parts, frame);
    std::vector<std::int16_t> all;
    for (std::int32_t y = region.top; y < region.bottom; ++y) {
      wanted.reset(frame, components, region);
      found.reset(frame, components, region);
      if (!expected.read(y, wanted) || !coefficients.read(y, found)) return false;
      // The padding of the last MCUs comes from the file and is not visible through libjpeg, so it
      // may be anything.
      const bool inside = region.right < frame.mcus_across && y + 1 < frame.mcus_down;
      const auto content = content_of(found, frame, true);
      if (inside && content_of(wanted, frame, true) != content) return false;
      all.insert(all.end(), content.begin(), content.end());
    }
    if (first && *first != all) return false;
    first = all;
  }
  return true;
}

}  // namespace

TEST_CASE("plain files of every kind come back byte by byte, and their coefficients are libjpeg's") {
  const auto files = plain_files();
  const PackTables tables = tables_for(files);
  JpegPacker packer(tables);
  Random random(41);
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    const Bytes bytes = packed(packer, files[i]);
    CHECK(forebay::pack::starts_as_packed_jpeg(bytes));
    CHECK(forebay::pack::tables_of(bytes) == tables.key());
    CHECK(packer.unpack(bytes) == files[i]);
    const auto header = PlainHeader::read(files[i]);
    REQUIRE(header.has_value());
    for (int n = 0; n < 3; ++n) {
      const McuRegion region = any_region(random, header->frame);
      CHECK(same_coefficients(files[i], bytes, tables, region, header->frame.components));
      CHECK(same_coefficients(files[i], bytes, tables, region, 1));
    }
  }
}

TEST_CASE("every sampling that fits into one scan is packed, at several qualities") {
  using forebay::testing::Factors;
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  Random random(42);
  std::size_t number = 0;
  for (const Factors& across : forebay::testing::decodable_factors()) {
    for (const Factors& down : forebay::testing::decodable_factors()) {
      int blocks = 0;
      for (std::size_t k = 0; k < 3; ++k) blocks += across[k] * down[k];
      if (blocks > forebay::testing::kBlocksOfAnMcu) continue;
      if (forebay::testing::kSanitized && ++number % 7 != 0) continue;
      CAPTURE(forebay::testing::text_of(across, down));
      Bytes file = forebay::testing::make_sampled_file(across, down, random, 5 + below(random, 95));
      CHECK(packer.unpack(packed(packer, file)) == file);
      // With another size the scan has surplus data; whatever happens, nothing is lost.
      forebay::testing::set_size(file, {1 + below(random, 70), 1 + below(random, 70)});
      if (const auto other = packer.pack(file)) CHECK(packer.unpack(*other) == file);
    }
  }
}

TEST_CASE("files of every size come back") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  for (int width = 1; width <= 70; width += forebay::testing::kSanitized ? 23 : 3) {
    for (int height = 1; height <= 70; height += forebay::testing::kSanitized ? 17 : 4) {
      for (const int quality : {1, 30, 75, 95, 100}) {
        const auto file = forebay::jpeg::encoded_noise({.width = width,
                                                        .height = height,
                                                        .h = 1 + width % 2,
                                                        .v = 1 + height % 2,
                                                        .grey = width % 5 == 0,
                                                        .quality = quality});
        CHECK(packer.unpack(packed(packer, file)) == file);
      }
    }
  }
}

TEST_CASE("what surrounds the scan is kept: segments of applications before it, anything behind its end") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  Recipe recipe;
  recipe.app1 = forebay::testing::exif_segment(6);
  const Bytes file = make_jpeg(recipe);
  CHECK(packer.unpack(packed(packer, file)) == file);
  Bytes longer = file;
  for (int i = 0; i < 5000; ++i) longer.push_back(static_cast<std::byte>(i * 7));
  CHECK(packer.unpack(packed(packer, longer)) == longer);
}

TEST_CASE("files that are not plain are not packed") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  Recipe recipe;
  recipe.progressive = true;
  CHECK_FALSE(packer.pack(make_jpeg(recipe)));
  recipe = {};
  recipe.arithmetic = true;
  CHECK_FALSE(packer.pack(make_jpeg(recipe)));
  recipe = {};
  recipe.separate_scans = true;
  CHECK_FALSE(packer.pack(make_jpeg(recipe)));
  recipe = {};
  recipe.input = recipe.stored = JCS_CMYK;
  recipe.components = 4;
  CHECK_FALSE(packer.pack(make_jpeg(recipe)));
  const Bytes file = make_jpeg({});
  for (std::size_t size = 0; size < file.size(); size += 7) CHECK_FALSE(packer.pack(std::span(file).first(size)));
  CHECK_FALSE(packer.pack({}));
}

TEST_CASE("a scan that its codes do not give back is not packed") {
  const PackTables tables = PackTraining().finish();
  JpegPacker packer(tables);
  std::size_t refused = 0;
  // Some encoders do not fill the last byte with ones, and decoders ignore these bits.
  for (int width = 8; width < 200; width += 8) {
    Bytes file = make_jpeg({.width = width, .height = 16});
    std::byte& last = file[file.size() - 3];
    if ((last & std::byte{1}) == std::byte{0}) continue;
    last &= ~std::byte{1};
    const auto bytes = packer.pack(file);
    if (!bytes) {
      ++refused;
      continue;
    }
    CHECK(packer.unpack(*bytes) == file);
  }
  CHECK(refused > 0);
}

TEST_CASE("damaged files are packed to what unpacks to them, or not at all") {
  const auto files = plain_files();
  const PackTables tables = tables_for(files);
  JpegPacker packer(tables);
  Random random(44);
  std::size_t some = 0;
  for (int i = 0; i < (forebay::testing::kSanitized ? 1000 : 4000); ++i) {
    Bytes file = files[random.below(files.size())];
    if (file.size() > 3000) continue;
    forebay::testing::damage(file, random);
    const auto bytes = packer.pack(file);
    if (!bytes) continue;
    ++some;
    CHECK(packer.unpack(*bytes) == file);
  }
  CHECK(some > 0);
}

TEST_CASE(
    "damaged packed files are refused or give something, the same by all kernels, and no more memory is touched") {
  const auto files = plain_files();
  const PackTables tables = tables_for(files);
  JpegPacker packer(tables);
  std::vector<Bytes> all;
  for (const Bytes& file : files) {
    if (file.size() < 8000) all.push_back(packed(packer, file));
  }
  Random random(45);
  PackedJpeg parts;
  CoefficientRow row;
  std::size_t refused = 0;
  for (int i = 0; i < (forebay::testing::kSanitized ? 2000 : 5000); ++i) {
    Bytes bytes = all[random.below(all.size())];
    for (std::uint64_t n = 1 + random.below(3); n > 0 && bytes.size() > 12; --n) {
      const std::size_t at = 8 + random.below(bytes.size() - 8);
      const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      switch (random.below(5)) {
        case 0: bytes.erase(place, bytes.end()); break;
        case 1: bytes.insert(place, forebay::testing::any_byte(random)); break;
        case 2: *place = forebay::testing::any_byte(random); break;
        default: *place ^= static_cast<std::byte>(1U << random.below(8));
      }
    }
    // An attacker would recompute the checksum.
    if (i % 8 != 0 && bytes.size() > 12) forebay::pack::set_checksum(bytes);
    bytes.shrink_to_fit();
    try {
      (void)packer.unpack(bytes);
    } catch (const forebay::SampleError&) {
      ++refused;
    }
    try {
      parts.open(bytes, tables);
    } catch (const forebay::SampleError&) {
      continue;
    }
    const auto header = PlainHeader::read(parts.header());
    if (!header || header->frame.mcus_across > 200 || header->frame.mcus_down > 200) continue;
    const McuRegion region = any_region(random, header->frame);
    std::optional<std::vector<std::int16_t>> first;
    for (const PackKernels& kernels : forebay::pack::supported_pack_kernels()) {
      std::vector<std::int16_t> content;
      try {
        PackedCoefficients coefficients(kernels);
        coefficients.open(parts, header->frame);
        for (std::int32_t y = region.top; y < region.bottom; ++y) {
          row.reset(header->frame, header->frame.components, region);
          const bool is_read = coefficients.read(y, row);
          CHECK(is_read);
          const auto more = content_of(row, header->frame, true);
          content.insert(content.end(), more.begin(), more.end());
        }
      } catch (const forebay::SampleError&) {
        content.push_back(-1);
      }
      if (first) CHECK(*first == content);
      first = content;
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("tables come back from their bytes, and damaged ones are refused") {
  const auto files = plain_files();
  const PackTables tables = tables_for(files);
  CHECK(tables.sets() > 1);
  const PackTables again = PackTables::from_bytes(tables.to_bytes());
  CHECK(again.key() == tables.key());
  JpegPacker packer(tables);
  CHECK(JpegPacker(again).unpack(packed(packer, files.back())) == files.back());
  CHECK(tables_for(files).key() == tables.key());  // the same files give the same tables
  CHECK_THROWS_AS((void)JpegPacker(PackTraining().finish()).unpack(packed(packer, files.back())), forebay::SampleError);

  const Bytes bytes(tables.to_bytes().begin(), tables.to_bytes().end());
  Random random(46);
  for (int i = 0; i < 300; ++i) {
    Bytes damaged = bytes;
    damaged[random.below(damaged.size())] ^= static_cast<std::byte>(1U << random.below(8));
    CHECK_THROWS_AS((void)PackTables::from_bytes(damaged), forebay::Error);
    damaged.resize(random.below(damaged.size()));
    CHECK_THROWS_AS((void)PackTables::from_bytes(damaged), forebay::Error);
  }
  // An attacker would recompute the checksum. Such tables are refused, or can be used.
  for (int i = 0; i < 60; ++i) {
    Bytes hostile = bytes;
    for (int n = 0; n < 3; ++n) {
      hostile[4 + random.below(hostile.size() - 4)] = forebay::testing::any_byte(random);
    }
    const std::uint32_t key = forebay::crc32c(std::span(hostile).first(hostile.size() - 4));
    std::memcpy(hostile.data() + hostile.size() - 4, &key, sizeof(key));
    try {
      JpegPacker other(PackTables::from_bytes(hostile));
      const Bytes& file = files[random.below(files.size())];
      if (const auto found = other.pack(file)) CHECK(other.unpack(*found) == file);
    } catch (const forebay::Error&) {
      continue;
    }
  }
}

TEST_CASE("headers that files have in common are stored once") {
  std::vector<Bytes> files;
  for (int i = 0; i < 12; ++i)
    files.push_back(forebay::jpeg::encoded_noise({.width = 32, .height = 32, .quality = 20 + i / 6}));
  const PackTables tables = tables_for(files);
  JpegPacker packer(tables);
  const auto header = PlainHeader::read(files[0]);
  REQUIRE(header.has_value());
  const Bytes bytes = packed(packer, files[0]);
  CHECK(bytes.size() + header->size < files[0].size() + 64);
}

TEST_CASE("photographs become smaller and come back") {
  const auto data = forebay::testing::real_data();
  if (!data) return;
  std::vector<Bytes> files;
  for (const auto& path : forebay::testing::files_in(*data / "photos")) {
    if (path.extension() == ".JPEG" || path.extension() == ".jpg") files.push_back(forebay::testing::read_bytes(path));
    if (files.size() == (forebay::testing::kSanitized ? 4 : 12)) break;
  }
  if (files.empty()) return;
  JpegPacker packer(tables_for(files));
  std::size_t before = 0;
  std::size_t after = 0;
  for (const Bytes& file : files) {
    const auto bytes = packer.pack(file);
    before += file.size();
    after += bytes ? bytes->size() : file.size();
    if (bytes) CHECK(packer.unpack(*bytes) == file);
  }
  CHECK(static_cast<double>(after) <= 0.99 * static_cast<double>(before));
}

}  // namespace forebay::test_jpeg_pack
