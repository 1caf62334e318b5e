#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "jpeg_indexed.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

// The file that a decode index is: what is found in it, and what becomes of it when it is damaged or cannot be read.
namespace {

namespace fs = std::filesystem;
using forebay::Box;
using forebay::DecodeIndex;
using forebay::Image;
using forebay::JpegDecoder;
using forebay::Random;
using forebay::testing::Bytes;
using forebay::testing::Indexed;
using forebay::testing::kSanitized;
using forebay::testing::make_jpeg;
using forebay::testing::points_of;
using forebay::testing::recipe_of;
using forebay::testing::twin_kernels;
using forebay::testing::with_comment;

Bytes read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(content));
  return {bytes.begin(), bytes.end()};
}

void write(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

TEST_CASE("among thousands of files each is found by its key, and of the same ones the first stays") {
  constexpr std::uint32_t kBits = 7;  // that the keys of so many are looked up by
  constexpr std::size_t kOthers = 5000;
  const Bytes base = make_jpeg(recipe_of(250, 200, {2, 2}, 3));
  const auto bucket_of = [](const Bytes& file) { return forebay::key_of(file).hash >> (64 - kBits); };
  std::vector<Bytes> files;  // of the first bucket, of the last one, and of two more
  for (const std::uint64_t bucket : {0, 127, 1, 64}) {
    std::uint32_t number = 0;
    while (bucket_of(with_comment(base, number)) != bucket) REQUIRE(++number < 10'000);
    files.push_back(with_comment(base, number));
  }
  Random random(65);
  const Bytes wrong(points_of(base).size());
  std::vector<std::pair<forebay::JpegKey, Bytes>> others;
  for (std::size_t i = 0; i < kOthers; ++i) {
    others.emplace_back(forebay::JpegKey{.hash = random.below(~std::uint64_t{0}), .size = 100}, Bytes(i % 50));
  }
  others.emplace_back(forebay::JpegKey{.hash = 0, .size = 100}, wrong);
  others.emplace_back(forebay::JpegKey{.hash = ~std::uint64_t{0}, .size = 100}, wrong);
  for (const Bytes& file : files) others.emplace_back(forebay::key_of(file), wrong);  // once more
  Indexed indexed(files, others);
  CHECK(indexed.files() == files.size() + kOthers + 2);
  const Bytes header = read(indexed.path());
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
  const Bytes good = read(indexed.path());
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
  // Shortened while it is in use.
  fs::resize_file(indexed.path(), good.size() / 2);
  for (const Bytes& file : files) indexed.compare(file, low);
  CHECK_THROWS_WITH_AS(indexed.open(), doctest::Contains("its size is not what its header says"), forebay::Error);
  write(indexed.path(), std::span(good).first(20));
  CHECK_THROWS_WITH_AS(indexed.open(), doctest::Contains("not a decode index of Forebay"), forebay::Error);
}

TEST_CASE("an index that can no longer be read is given up, once and with a warning") {
  const Bytes file = make_jpeg(recipe_of(300, 260, {2, 2}, 0));
  const Indexed indexed({file});
  const Bytes good = read(indexed.path());
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
  const Bytes good = read(indexed.path());
  // Magic and version, bits, files, bytes of records, the checksum of the counts, that of the header.
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
