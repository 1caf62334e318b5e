// Coefficients in the places of canvases: what is held, and that its pixels are libjpeg-turbo's.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "held_support.hpp"
#include "jpeg_indexed.hpp"
#include "jpeg_pack_support.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_samplings.hpp"
#include "jpeg_twins.hpp"
#include "make/held_decoder.hpp"
#include "make/held_math.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/packed_file.hpp"
#include "make/record_kernels.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using testing::AlignedBytes;
using testing::below;
using testing::random_region;
using testing::text_of;
using testing::twin_kernels;
using Bytes = std::vector<std::byte>;

constexpr HoldLimits kNoLimits{.width = 1 << 20, .height = 1 << 20, .expanded = std::size_t{1} << 30};

// Files held by a decoder, and their pixels beside those of libjpeg-turbo's full decode.
class Comparison {
 public:
  explicit Comparison(std::uint64_t seed) : random_(seed), decoder_(twin_kernels()), held_(*twin_kernels()) {
    MESSAGE("seed " << seed);
  }
  [[nodiscard]] Random& random() noexcept { return random_; }

  // Holds all of the file, or a random part of it, and compares some regions of that. False: it could not be held.
  // `decoder`: one that decodes it; null: one that knows neither tables nor an index.
  bool compare(const Bytes& file, bool in_part, const std::string& text, JpegDecoder* decoder = nullptr,
               const Bytes* original = nullptr) {
    turbo_.decode(original == nullptr ? file : *original, {}, whole_);
    if (decoder == nullptr) decoder = &decoder_;
    const ImageSize size = decoder->open(file, {});
    const Box part = in_part ? random_region(random_, size) : Box{0, 0, size.width, size.height};
    const AlignedBytes memory(std::size_t{400} << 10);
    if (!decoder->hold({.region = part, .limits = kNoLimits, .place = memory.bytes()})) return false;
    CHECK(decoder->was_own());
    for (int i = 0; i < 3; ++i) {
      const Box inner =
          i == 0 ? Box{0, 0, part.width(), part.height()} : random_region(random_, {part.width(), part.height()});
      held_.decode(memory.bytes(), inner, found_);
      const Box there{part.left + inner.left, part.top + inner.top, part.left + inner.right, part.top + inner.bottom};
      found_.area = there;
      CHECK_MESSAGE(testing::is_part_of(found_, whole_, there), text << text_of(there));
      expand_plainly(memory.bytes(), inner, plain_);
      CHECK_MESSAGE(plain_is(there), text << text_of(there) << " plainly");
    }
    return true;
  }

 private:
  [[nodiscard]] bool plain_is(const Box& region) const {
    const auto bytes = static_cast<std::size_t>(region.width()) * 3;
    for (std::int32_t y = 0; y < region.height(); ++y) {
      const auto* const row = plain_.data() + expanded_row_bytes(region.width()) * static_cast<std::size_t>(y);
      if (!std::equal(row, row + bytes, whole_.row(region.top + y) + std::ptrdiff_t{3} * region.left)) return false;
    }
    return true;
  }

  Random random_;
  JpegDecoder decoder_;
  JpegDecoder turbo_;
  HeldDecoder held_;
  Image whole_;
  Image found_;
  std::vector<std::uint8_t> plain_;
};

TEST_CASE("what is held has the pixels of the full decode: common files, orientations, colours, parts") {
  Comparison comparison(std::random_device{}());
  const auto files = testing::files_to_hold();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string text = "file " + std::to_string(i) + " ";
    CHECK_MESSAGE(comparison.compare(files[i], false, text), text);
    for (int round = 0; round < 4; ++round) CHECK_MESSAGE(comparison.compare(files[i], true, text), text);
  }
}

TEST_CASE("what is held has the pixels of the full decode: every sampling of three components") {
  Comparison comparison(std::random_device{}());
  Random& random = comparison.random();
  const auto factors = testing::decodable_factors();
  int held = 0;
  int not_held = 0;
  for (const auto& across : factors) {
    for (std::size_t d = 0; d < factors.size(); d += testing::kSanitized ? 9 : 2) {
      const ImageSize size{1 + below(random, testing::kWidest), 1 + below(random, testing::kHighest)};
      const Bytes file = testing::make_sampled_file(across, factors[d], random, 75, size);
      const bool is_held = comparison.compare(file, random.below(2) == 0, testing::text_of(across, factors[d]));
      ++(is_held ? held : not_held);
    }
  }
  MESSAGE(held << " files held, " << not_held << " not, of several scans or with odd colours");
  CHECK(held > (testing::kSanitized ? 20 : 100));
}

TEST_CASE("packed files and files in an index are held as the files themselves are") {
  Comparison comparison(std::random_device{}());
  const auto files = testing::files_to_hold();
  const PackTables tables = testing::tables_for(files);
  TableCache cache([&](std::uint32_t /*key*/) { return tables.to_bytes(); });
  JpegPacker packer(tables);
  JpegDecoder of_packs(twin_kernels(), nullptr, &cache);
  for (const Bytes& file : files) {
    const auto packed = packer.pack(file);
    if (packed) CHECK(comparison.compare(*packed, true, "packed ", &of_packs, &file));
  }
  const Bytes large = encoded_noise({.width = 400, .height = 300, .h = 2, .v = 2});
  const testing::TemporaryDirectory dir;
  DecodeIndexWriter writer;
  writer.add(key_of(large), testing::points_of(large));
  writer.save(dir / "points");
  const DecodeIndex index(dir / "points");
  JpegDecoder indexed(twin_kernels(), &index);
  bool used = false;
  for (int round = 0; round < 10; ++round) {
    CHECK(comparison.compare(large, true, "indexed ", &indexed));
    used = used || indexed.was_indexed();
  }
  CHECK(used);
}

TEST_CASE("the same coefficients are held whatever was in the place, and nothing is written behind it") {
  const Bytes file = encoded_noise({.width = 90, .height = 60, .h = 2, .v = 2, .quality = 90});
  JpegDecoder decoder(twin_kernels());
  const Box whole{0, 0, 90, 60};
  const auto hold = [&](std::span<std::byte> place, const HoldLimits& limits) {
    (void)decoder.open(file, {});
    return decoder.hold({.region = whole, .limits = limits, .place = place});
  };
  const AlignedBytes memory(64U << 10U);
  REQUIRE(hold(memory.bytes(), kNoLimits));
  // The least place that is enough; AddressSanitizer sees what is written behind a smaller one.
  std::size_t few = 0;
  std::size_t enough = memory.bytes().size();
  while (enough - few > 16) {
    const std::size_t middle = (few + enough) / 32 * 16;
    const AlignedBytes place(middle);
    (hold(place.bytes(), kNoLimits) ? enough : few) = middle;
  }
  CHECK(few > 1000);
  HeldDecoder held(*twin_kernels());
  Image expected;
  JpegDecoder().decode(file, {}, expected);
  const AlignedBytes least(enough);
  std::ranges::fill(least.bytes(), std::byte{0xff});
  REQUIRE(hold(least.bytes(), kNoLimits));
  Image found;
  held.decode(least.bytes(), whole, found);
  CHECK(testing::is_part_of(found, expected, whole));
  // Limits are what they say.
  const std::size_t samples = 96 * 64 * 3 / 2;
  const std::size_t pixels = expanded_row_bytes(90) * 60;
  CHECK(hold(memory.bytes(), {.width = 90, .height = 60, .expanded = std::max(samples, pixels)}));
  CHECK_FALSE(hold(memory.bytes(), {.width = 89, .height = 60, .expanded = pixels}));
  CHECK_FALSE(hold(memory.bytes(), {.width = 90, .height = 59, .expanded = pixels}));
  CHECK_FALSE(hold(memory.bytes(), {.width = 90, .height = 60, .expanded = pixels - 1}));
}

TEST_CASE("a file that is not held is decoded as ever, and one that is damaged is refused for the same reason") {
  Random random(std::random_device{}());
  JpegDecoder own(twin_kernels());
  JpegDecoder turbo;
  const AlignedBytes memory(256U << 10U);
  HeldDecoder held(*twin_kernels());
  Image found;
  Image expected;
  int refused = 0;
  int kept = 0;
  const auto files = testing::files_to_hold();
  for (int round = 0; round < (testing::kSanitized ? 200 : 1500); ++round) {
    Bytes file = files[random.below(files.size())];
    const std::size_t changes = random.below(3);
    for (std::size_t i = 0; i < changes; ++i) file[random.below(file.size())] = static_cast<std::byte>(random.bits());
    if (random.below(8) == 0) file.resize(1 + random.below(file.size()));
    ImageSize size;
    const std::string header = testing::error_of([&] {
      size = own.open(file, {.max_pixels = 100'000});
      return 0;
    });
    if (!header.empty()) continue;
    const Box region = random_region(random, size);
    const std::string refusal = testing::error_of([&] {
      (void)turbo.open(file, {});
      turbo.decode(region, 1, expected);
      return 0;
    });
    const bool is_held = own.hold({.region = region, .limits = kNoLimits, .place = memory.bytes()});
    if (is_held) {
      REQUIRE(refusal.empty());
      held.decode(memory.bytes(), {0, 0, region.width(), region.height()}, found);
      found.area = region;
      CHECK(testing::same_region(found, expected, region));
      ++kept;
      continue;
    }
    CHECK(testing::error_of([&] {
            own.decode(region, 1, found);
            return 0;
          }) == refusal);
    if (refusal.empty()) CHECK(testing::same_region(found, expected, region));
    ++refused;
  }
  CHECK(refused > 20);
  CHECK(kept > 20);
}

TEST_CASE("records are the same by all kernels, and each reads them back") {
  const std::uint64_t seed = std::random_device{}();
  MESSAGE("seed " << seed);
  Random random(seed);
  const auto all = supported_record_kernels();
  const bool ends_plainly = all.back().write == scalar_record_kernels().write;
  CHECK(ends_plainly);
  int refused = 0;
  int heavy = 0;
  for (int round = 0; round < (testing::kSanitized ? 3'000 : 30'000); ++round) {
    alignas(64) std::array<std::int16_t, CoefficientRow::kGroup * kBlockSize> group{};
    std::int16_t* const block = group.data() + CoefficientRow::place_of(random.below(CoefficientRow::kGroup));
    const auto extent = static_cast<std::size_t>(random.below(kBlockSize));
    const std::uint64_t share = 1 + random.below(8);
    std::size_t last = 0;
    for (std::size_t k = 0; k <= extent; ++k) {
      if (random.below(8) >= share) continue;
      // Of every size; seldom of one that has no record.
      const std::int32_t most = 1 << random.below(random.below(64) == 0 ? 16 : 12);
      const std::int32_t value = below(random, 2 * most) - most;
      block[CoefficientRow::kPlaces[k]] = static_cast<std::int16_t>(value);
      if (value != 0) last = k;
    }
    RecordWeights weights{};
    const std::int32_t heaviest = 1 << random.below(15);
    for (auto& weight : weights) weight = static_cast<std::int16_t>(below(random, heaviest));
    std::array<std::uint8_t, kMostRecordBytes + kHeldSlack> expected{};
    bool is_heavy = false;
    const std::size_t length = scalar_record_kernels().write(block, extent, weights, 4000, expected.data(), is_heavy);
    REQUIRE(length <= kMostRecordBytes);
    refused += length == 0 ? 1 : 0;
    heavy += is_heavy ? 1 : 0;
    for (const RecordKernels& kernels : all) {
      std::array<std::uint8_t, kMostRecordBytes + kHeldSlack> found{};
      bool found_heavy = false;
      CHECK_MESSAGE(kernels.write(block, extent, weights, 4000, found.data(), found_heavy) == length, kernels.name);
      if (length == 0) continue;
      CHECK_MESSAGE(found_heavy == is_heavy, kernels.name);
      CHECK_MESSAGE(std::equal(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(length), expected.begin()),
                    kernels.name);
      std::fill(found.begin() + static_cast<std::ptrdiff_t>(length), found.end(), std::uint8_t{0xff});
      alignas(64) std::array<std::int16_t, CoefficientRow::kGroup * kBlockSize> again{};
      CHECK_MESSAGE(kernels.read(found.data(), again.data() + (block - group.data())) == last, kernels.name);
      CHECK_MESSAGE(again == group, kernels.name);
    }
  }
  CHECK(refused > 10);
  CHECK(heavy > 100);
  // The largest that there are.
  alignas(64) std::array<std::int16_t, CoefficientRow::kGroup * kBlockSize> group{};
  for (std::size_t k = 0; k < kBlockSize; ++k) group[CoefficientRow::kPlaces[k]] = k % 2 == 0 ? -8192 : 8192;
  group[0] = -2048;
  std::array<std::uint8_t, kMostRecordBytes + kHeldSlack> record{};
  bool ignored = false;
  for (const RecordKernels& kernels : all) {
    CHECK(kernels.write(group.data(), 63, {}, 4000, record.data(), ignored) == kMostRecordBytes);
    group[0] = 2048;
    CHECK(kernels.write(group.data(), 63, {}, 4000, record.data(), ignored) == 0);
    group[0] = -2048;
    group[1] = 8193;
    CHECK(kernels.write(group.data(), 63, {}, 4000, record.data(), ignored) == 0);
    group[1] = 8192;
  }
}

// Of libjpeg's bounds only those hold that JpegHolder checks itself: files of the largest coefficients there can be.
TEST_CASE("coefficients that PixelStage does not transform are not held") {
  Random random(5);
  const Bytes file = testing::make_sampled_file({1, 1, 1}, {1, 1, 1}, random, 1);
  JpegDecoder own(twin_kernels());
  const AlignedBytes memory(256U << 10U);
  const Box whole{0, 0, testing::kWidest, testing::kHighest};
  (void)own.open(file, {});
  const bool is_held = own.hold({.region = whole, .limits = kNoLimits, .place = memory.bytes()});
  Image found;
  (void)own.open(file, {});
  own.decode(whole, 1, found);
  CHECK(is_held == own.was_own());
  CHECK_FALSE(is_held);
}

}  // namespace
}  // namespace forebay
