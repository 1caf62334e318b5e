#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/operation.hpp>

#include "jpeg/pixel_kernels.hpp"
#include "jpeg_damage.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_support.hpp"
#include "jpeg_twins.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/sample_maker.hpp"
#include "support.hpp"

// Forebay's own decoding of plain JPEG files against libjpeg-turbo: the same pixels, and the same refusals.
namespace {

namespace fs = std::filesystem;
using forebay::Box;
using forebay::Image;
using forebay::JpegDecoder;
using forebay::Random;
using forebay::testing::exif_segment;
using forebay::testing::make_jpeg;
using forebay::testing::Recipe;
using forebay::testing::twin_kernels;
using forebay::testing::Twins;
using Bytes = std::vector<std::byte>;

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
        const bool is_own = twins.compare_any(file, {.max_pixels = forebay::testing::kMostTwinPixels, .grey = true});
        CHECK(is_own == (recipe.stored != JCS_RGB));  // libjpeg weighs the colours
        CHECK(twins.compare_any(file, {.exif = false, .max_pixels = forebay::testing::kMostTwinPixels}));
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
  JpegDecoder decoder(twin_kernels());
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
    twins.compare_any(file, {.max_pixels = forebay::testing::kMostTwinPixels, .grey = random.below(4) == 0});
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

TEST_CASE("only samples that became whole count as decoded without libjpeg, or as ones that could be smaller") {
  class Fails final : public forebay::Operation {
   public:
    void apply(const forebay::PixelView&, Random&) const override { throw std::runtime_error("no such luck"); }
  };
  auto registry = forebay::OperationRegistry::builtin();
  registry.add("fails", [](const forebay::TransformOptions&) { return std::make_unique<Fails>(); });
  forebay::TransformOptions options;
  options.size = {8, 8};
  const Bytes file = make_jpeg(plain(120, 90));
  const auto workspace_after = [&](bool fails, bool together) {
    options.operations.clear();
    if (fails) options.operations.emplace_back("fails");
    const forebay::SampleMaker maker(options, 7, true, forebay::Transform::Stores::normal,
                                     forebay::OperationChain(registry, options, false));
    forebay::SampleMaker::Workspace workspace;
    workspace.decoder = forebay::ImageDecoder(twin_kernels());
    Bytes out(2 * maker.sample_bytes());
    const auto place = [&](std::size_t i) {
      return forebay::SamplePlace(std::span(out).subspan(i * maker.sample_bytes(), maker.sample_bytes()));
    };
    if (together) {
      std::vector<forebay::SampleMaker::Member> members(2);
      for (std::size_t i = 0; i < 2; ++i) members[i] = {.sample = {}, .epoch = 0, .position = i, .out = place(i)};
      CHECK(maker.make_together(file, members, workspace) == !fails);
    } else if (fails) {
      CHECK_THROWS_AS(maker.make(file, {}, 0, 0, place(0), workspace), forebay::OperationError);
    } else {
      maker.make(file, {}, 0, 0, place(0), workspace);
    }
    return std::pair{workspace.own_jpeg, workspace.shrinkable};
  };
  CHECK(workspace_after(false, false) == std::pair<std::uint64_t, std::uint64_t>{1, 1});
  CHECK(workspace_after(false, true) == std::pair<std::uint64_t, std::uint64_t>{2, 0});
  CHECK(workspace_after(true, false) == std::pair<std::uint64_t, std::uint64_t>{0, 0});
  CHECK(workspace_after(true, true) == std::pair<std::uint64_t, std::uint64_t>{0, 0});
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
