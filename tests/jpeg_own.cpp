#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "jpeg/pixel_kernels.hpp"
#include "jpeg_damage.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_support.hpp"
#include "make/jpeg_decoder.hpp"
#include "support.hpp"

// Forebay's own decoding of plain JPEG files against libjpeg-turbo: the same pixels, and the same refusals.
namespace {

namespace fs = std::filesystem;
using forebay::Box;
using forebay::Image;
using forebay::ImageOptions;
using forebay::ImageSize;
using forebay::JpegDecoder;
using forebay::Random;
using forebay::testing::below;
using forebay::testing::exif_segment;
using forebay::testing::make_jpeg;
using forebay::testing::random_region;
using forebay::testing::Recipe;
using forebay::testing::same_region;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t kMostPixels = 1'000'000;

const forebay::PixelKernels* kernels() {
  const auto* const trusted = forebay::trusted_pixel_kernels();
  REQUIRE(trusted != nullptr);
  return trusted;
}

struct Result {
  std::optional<ImageSize> size;  // if the header was accepted
  std::string refusal;            // empty: decoded
  bool is_own = false;
};

// `region` chooses from the size.
template <typename Region>
Result decode(JpegDecoder& decoder, const Bytes& file, const ImageOptions& options, const Region& region,
              Image& image) {
  Result result;
  try {
    result.size = decoder.open(file, options);
    decoder.decode(region(*result.size), 1, image);
    result.is_own = decoder.was_own();
  } catch (const forebay::SampleError& error) {
    result.refusal = error.what();
  }
  return result;
}

// Both decoders, side by side.
class Twins {
 public:
  explicit Twins(std::uint64_t seed) : random_(seed), own_(kernels()) { MESSAGE("seed " << seed); }

  [[nodiscard]] Random& random() noexcept { return random_; }

  // Decodes a region, and gives back whether that was Forebay's own work.
  bool compare(const Bytes& file, const Box& region, const ImageOptions& options = {.max_pixels = kMostPixels}) {
    const auto given = [&](ImageSize) { return region; };
    return compare_with(file, options, given);
  }
  bool compare_any(const Bytes& file, const ImageOptions& options = {.max_pixels = kMostPixels}) {
    const std::uint64_t seed = random_.bits();
    const auto any = [&](ImageSize size) {
      Random random(seed);
      return random.below(3) == 0 ? Box{0, 0, size.width, size.height} : random_region(random, size);
    };
    return compare_with(file, options, any);
  }

  int own = 0;      // decoded without libjpeg
  int library = 0;  // decoded by libjpeg
  int refused = 0;

 private:
  template <typename Region>
  bool compare_with(const Bytes& file, const ImageOptions& options, const Region& region) {
    const Result expected = decode(turbo_, file, options, region, expected_);
    const Result found = decode(own_, file, options, region, found_);
    CHECK(found.refusal == expected.refusal);
    CHECK_FALSE(expected.is_own);
    if (expected.refusal.empty() && found.refusal.empty()) {
      CHECK(same_region(found_, expected_, region(*expected.size)));
    }
    ++(!found.refusal.empty() ? refused : found.is_own ? own : library);
    return found.is_own;
  }

  Random random_;
  JpegDecoder own_;
  JpegDecoder turbo_;
  Image found_;
  Image expected_;
};

Recipe plain(int width, int height, J_COLOR_SPACE stored = JCS_YCbCr,
             std::vector<std::pair<int, int>> sampling = {{2, 2}, {1, 1}, {1, 1}}) {
  Recipe recipe;
  recipe.width = width;
  recipe.height = height;
  recipe.stored = stored;
  recipe.sampling = std::move(sampling);
  if (stored == JCS_GRAYSCALE) {
    recipe.input = JCS_GRAYSCALE;
    recipe.components = 1;
  }
  return recipe;
}

std::vector<Recipe> plain_kinds(int width, int height) {
  constexpr std::pair<int, int> kOne{1, 1};
  std::vector<Recipe> all;
  for (const std::pair<int, int>& luma : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}}) {
    all.push_back(plain(width, height, JCS_YCbCr, {luma, kOne, kOne}));
  }
  all.push_back(plain(width, height, JCS_GRAYSCALE, {kOne}));
  all.push_back(plain(width, height, JCS_GRAYSCALE, {{2, 2}}));
  all.push_back(plain(width, height, JCS_RGB, {kOne, kOne, kOne}));
  const std::size_t kinds = all.size();
  for (std::size_t i = 0; i < kinds; ++i) {
    all.push_back(all[i]);
    all.back().restart_interval = static_cast<int>(1 + i % 5);
    all.push_back(all[i]);
    all.back().optimised = true;
  }
  return all;
}

Bytes read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(content));
  return {bytes.begin(), bytes.end()};
}

void append(Bytes& file, std::initializer_list<int> bytes) {
  for (const int value : bytes) file.push_back(static_cast<std::byte>(value));
}

}  // namespace

TEST_CASE("plain files of every kind are decoded without libjpeg, in every orientation, in colour and grey") {
  Twins twins(31);
  for (const auto& [width, height] : {std::pair{1, 1}, {8, 8}, {17, 9}, {64, 48}, {37, 121}, {150, 70}}) {
    for (Recipe recipe : plain_kinds(width, height)) {
      for (int orientation = 1; orientation <= 8; ++orientation) {
        recipe.app1 = exif_segment(orientation);
        const Bytes file = make_jpeg(recipe);
        CAPTURE(recipe.stored);
        CAPTURE(width);
        CAPTURE(height);
        CAPTURE(recipe.sampling[0].first);
        CAPTURE(recipe.sampling[0].second);
        CAPTURE(recipe.restart_interval);
        CAPTURE(orientation);
        const bool turns = orientation >= 5;
        CHECK(twins.compare(file, {0, 0, turns ? height : width, turns ? width : height}));
        for (int i = 0; i < 4; ++i) CHECK(twins.compare_any(file));
        const bool is_own = twins.compare_any(file, {.max_pixels = kMostPixels, .grey = true});
        CHECK(is_own == (recipe.stored != JCS_RGB));  // libjpeg weighs the colours
        CHECK(twins.compare_any(file, {.exif = false, .max_pixels = kMostPixels}));
      }
    }
  }
  CHECK(twins.refused == 0);
}

TEST_CASE("other kinds of JPEG file, and smaller scales, are libjpeg's") {
  Twins twins(32);
  for (int kind = 0; kind < 4; ++kind) {
    Recipe recipe = plain(40, 30);
    recipe.progressive = kind == 0;
    recipe.arithmetic = kind == 1;
    recipe.separate_scans = kind == 2;
    if (kind == 3) {
      recipe.input = recipe.stored = JCS_CMYK;
      recipe.components = 4;
      recipe.sampling.clear();
    }
    CHECK_FALSE(twins.compare_any(make_jpeg(recipe)));
  }
  CHECK(twins.library == 4);
  JpegDecoder decoder(kernels());
  Image image;
  const Bytes file = make_jpeg(plain(40, 30));
  (void)decoder.open(file, {});
  decoder.decode({0, 0, 40, 30}, 2, image);
  CHECK_FALSE(decoder.was_own());
}

TEST_CASE("what follows the last row decides as with libjpeg, and only where that row is wanted") {
  Twins twins(33);
  const Bytes file = make_jpeg(plain(40, 40));
  const Bytes cut(file.begin(), file.end() - 2);
  const Box whole{0, 0, 40, 40};
  const Box top{0, 0, 40, 8};
  const auto with = [&](std::initializer_list<int> bytes) {
    Bytes longer = cut;
    append(longer, bytes);
    return longer;
  };
  CHECK(twins.compare(file, whole));
  CHECK(twins.compare(with({0xff, 0xd9, 1, 2, 3}), whole));                        // behind the end
  CHECK(twins.compare(with({1, 2, 3, 0xff, 0, 4, 0xff, 0xd9}), whole));            // surplus data
  CHECK_FALSE(twins.compare(with({0xff, 0xff, 0xd9}), whole));                     // padding
  CHECK_FALSE(twins.compare(with({0xff, 0xd0, 0xff, 0xd9}), whole));               // a restart that is none
  CHECK_FALSE(twins.compare(with({0xff, 0xdc, 0, 4, 0, 40, 0xff, 0xd9}), whole));  // DNL
  CHECK_FALSE(twins.compare(with({0xff, 0xfe, 0, 3, 65, 0xff, 0xd9}), whole));     // a comment
  CHECK_FALSE(twins.compare(with({0xff, 0xda, 0xff, 0xd9}), whole));               // another scan
  CHECK(twins.refused == 1);
  CHECK(twins.compare(with({0xff, 0xda, 0xff, 0xd9}), top));
  CHECK_FALSE(twins.compare(cut, top));
  CHECK_FALSE(twins.compare(cut, whole));
  CHECK(twins.refused == 3);
}

TEST_CASE("damaged files are refused alike, with the same words, and else have the same pixels") {
  constexpr int kRounds = forebay::testing::kSanitized ? 4'000 : 30'000;
  Twins twins(34);
  Random& random = twins.random();
  std::vector<Bytes> files;
  for (const auto& [width, height] : {std::pair{16, 16}, {33, 50}, {90, 20}}) {
    for (const Recipe& recipe : plain_kinds(width, height)) files.push_back(make_jpeg(recipe));
  }
  for (int round = 0; round < kRounds; ++round) {
    Bytes file = files[random.below(files.size())];
    for (std::uint64_t i = 0, n = 1 + random.below(3); i < n && file.size() > 8; ++i) {
      forebay::testing::damage(file, random);
    }
    CAPTURE(round);
    twins.compare_any(file, {.max_pixels = kMostPixels, .grey = random.below(4) == 0});
  }
  MESSAGE(twins.own << " decoded by Forebay, " << twins.library << " by libjpeg, " << twins.refused << " refused");
  CHECK(twins.own > kRounds / 20);
  CHECK(twins.library > kRounds / 100);
  CHECK(twins.refused > kRounds / 20);
}

TEST_CASE("files of several windows of bytes are decoded, or refused, as by libjpeg") {
  constexpr int kDamaged = forebay::testing::kSanitized ? 40 : 150;
  Twins twins(37);
  for (const int interval : {0, 40}) {
    Recipe recipe = plain(480, 400);
    recipe.restart_interval = interval;
    const Bytes good = make_jpeg(recipe);
    REQUIRE(good.size() > 40'000);
    for (int round = 0; round < 10; ++round) CHECK(twins.compare_any(good));
    for (int round = 0; round < kDamaged; ++round) {
      Bytes file = good;
      forebay::testing::damage(file, twins.random());
      if (file.size() > 8) twins.compare_any(file);
    }
  }
}

TEST_CASE("a damaged file leaves nothing behind for the next one") {
  Twins twins(35);
  Random& random = twins.random();
  Recipe recipe = plain(70, 50);
  recipe.optimised = true;
  const Bytes good = make_jpeg(recipe);
  const Bytes other = make_jpeg(plain(70, 50));
  for (int round = 0; round < 500; ++round) {
    Bytes bad = other;
    forebay::testing::damage(bad, random);
    if (bad.size() > 8) twins.compare_any(bad);
    CHECK(twins.compare_any(round % 2 == 0 ? good : other));
  }
}

TEST_CASE("every JPEG of the real data is decoded, or refused, as by libjpeg") {
  const auto data = forebay::testing::real_data();
  if (!data) {
    MESSAGE("SKIPPED: no real data");
    return;
  }
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(*data)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  constexpr std::size_t kStep = forebay::testing::kSanitized ? 9 : 1;
  Twins twins(36);
  for (std::size_t i = 0; i < paths.size(); i += kStep) {
    const Bytes file = read(paths[i]);
    if (file.size() < 2 || file[0] != std::byte{0xff} || file[1] != std::byte{0xd8}) continue;
    CAPTURE(paths[i].string());
    twins.compare_any(file, {.max_pixels = 4'000'000});
  }
  MESSAGE(twins.own << " decoded by Forebay, " << twins.library << " by libjpeg, " << twins.refused << " refused");
  CHECK(twins.own > 100);
}
