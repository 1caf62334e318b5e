#include <forebay/operation.hpp>

#include "jpeg/pixel_kernels.hpp"
#include "jpeg_damage.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_support.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/sample_maker.hpp"
#include "test.hpp"

// Compares Forebay's own decoding of plain JPEG files with libjpeg-turbo: the same pixels, and the
// same errors.
namespace forebay::test_jpeg_own {
namespace {

namespace fs = std::filesystem;
using namespace forebay::make;
using namespace forebay::testing;
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

// The decode index of a file.
Bytes points_of(JpegDecoder& decoder, const Bytes& file) {
  try {
    (void)decoder.open(file, {.max_pixels = 400'000});
    return decoder.locate();
  } catch (const forebay::SampleError&) {
    return {};
  }
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
        CAPTURES(recipe.stored, width, height, recipe.sampling[0].first);
        CAPTURES(recipe.sampling[0].second, recipe.restart_interval, orientation);
        const bool turns = orientation >= 5;
        CHECK(twins.compare(file, {0, 0, turns ? height : width, turns ? width : height}));
        for (int i = 0; i < 4; ++i) CHECK(twins.compare_any(file));
        const bool is_own = twins.compare_any(file, {.max_pixels = forebay::testing::kMostTwinPixels, .grey = true});
        CHECK(is_own == (recipe.stored != JCS_RGB));  // libjpeg computes grey from the colours
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
  CHECK(twins.compare(with({0xff, 0xd9, 1, 2, 3}), whole));  // after the end
  // Surplus data that libjpeg-turbo already has in its buffer, so that it does not warn.
  CHECK_FALSE(twins.compare(with({1, 2, 3, 0xff, 0, 4, 0xff, 0xd9}), whole));
  CHECK_FALSE(twins.compare(with({0xff, 0xff, 0xd9}), whole));                     // padding
  CHECK_FALSE(twins.compare(with({0xff, 0xd0, 0xff, 0xd9}), whole));               // an unexpected restart marker
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
    const forebay::make::SampleMaker maker(options, 7, true, forebay::make::OperationChain(registry, options, false));
    forebay::make::SampleMaker::Workspace workspace;
    workspace.decoder = forebay::make::ImageDecoder(twin_kernels());
    Bytes out(2 * maker.sample_bytes());
    const auto place = [&](std::size_t i) {
      return forebay::make::SamplePlace(std::span(out).subspan(i * maker.sample_bytes(), maker.sample_bytes()));
    };
    if (together) {
      std::vector<forebay::make::SampleMaker::Member> members(2);
      for (std::size_t i = 0; i < 2; ++i) members[i] = {.sample = {}, .epoch = 0, .position = i, .out = place(i)};
      CHECK(maker.make_together(file, members, workspace) == !fails);
    } else if (fails) {
      CHECK_THROWS_AS(maker.make(file, {}, 0, 0, place(0), workspace), forebay::make::OperationError);
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

TEST_CASE("what djpeg reports is refused, by whatever way it is decoded, and what it does not report is decoded") {
  using forebay::testing::djpeg_verdict;
  using forebay::testing::DjpegVerdict;
  constexpr int kRounds = forebay::testing::kSanitized ? 300 : 1'500;
  Random random = testing::random_from(37);
  // Large enough for libjpeg-turbo's faster loop, which warns less.
  std::vector<Bytes> files;
  for (Recipe recipe : plain_kinds(300, 200)) {
    files.push_back(make_jpeg(recipe));
    recipe.optimised = true;
    files.push_back(make_jpeg(recipe));
    recipe.progressive = true;
    files.push_back(make_jpeg(recipe));
  }
  for (int kind = 0; kind < 4; ++kind) {
    Recipe recipe = plain(300, 200);
    recipe.arithmetic = kind == 0;
    recipe.separate_scans = kind == 1;
    recipe.restart_interval = kind == 2 ? 7 : 0;
    if (kind == 3) {
      recipe.input = recipe.stored = JCS_CMYK;
      recipe.components = 4;
      recipe.sampling.clear();
    }
    files.push_back(make_jpeg(recipe));
  }
  const auto whole = [](forebay::make::ImageSize size) { return Box{0, 0, size.width, size.height}; };
  const auto centre = [](forebay::make::ImageSize size) {
    return Box{size.width / 3, size.height / 3, size.width / 3 + 1, size.height / 3 + 1};
  };
  JpegDecoder own(twin_kernels());
  JpegDecoder turbo;
  std::array<int, 3> verdicts{};
  for (int round = 0; round < kRounds; ++round) {
    Bytes file = files[random.below(files.size())];
    const auto kind = static_cast<forebay::testing::FieldDamage>(round % forebay::testing::kFieldDamages);
    forebay::testing::damage_as(kind, file, random);
    const auto refusal = [&](JpegDecoder& decoder, const auto& region) {
      Image image;
      return forebay::testing::decode(decoder, file, {.max_pixels = 400'000}, region, image).refusal;
    };
    const std::string refused = refusal(own, whole);
    CAPTURES(round, refused);
    CHECK(refusal(turbo, whole) == refused);
    // Forebay's own limits.
    if (contains(refused, "max_pixels") || contains(refused, "components:")) continue;
    const DjpegVerdict verdict = djpeg_verdict(file);
    ++verdicts[static_cast<std::size_t>(verdict)];
    const bool is_damaged = verdict == DjpegVerdict::damaged;
    CHECK(is_damaged == !refused.empty());
    if (is_damaged) {
      CHECK(points_of(own, file).empty());
    } else {
      CHECK(refusal(own, centre).empty());
    }
  }
  MESSAGE(verdicts[0] << " whole, " << verdicts[1] << " with an odd header, " << verdicts[2] << " damaged");
  CHECK(verdicts[0] > kRounds / 20);
  CHECK(verdicts[2] > kRounds / 2);
}

TEST_CASE("a header that is merely odd refuses no image") {
  Twins twins(38);
  const Bytes file = make_jpeg(plain(40, 30));
  const Box whole{0, 0, 40, 30};
  const auto segment_of = [&](std::uint8_t marker) {
    const auto all = forebay::testing::segments_of(file);
    return std::ranges::find(all, marker, &forebay::testing::Segment::marker)->begin;
  };
  const auto decodes = [&](const Bytes& odd) {
    CHECK(forebay::testing::djpeg_verdict(odd) == forebay::testing::DjpegVerdict::odd_header);
    const int refused = twins.refused;
    (void)twins.compare(odd, whole);
    return twins.refused == refused;
  };
  Bytes version = file;
  version[segment_of(0xe0) + 9] = std::byte{2};  // JFIF 2.01
  CHECK(decodes(version));
  Bytes adobe = file;  // with the transform for four components
  const Bytes segment = [] {
    Bytes bytes;
    append(bytes, {0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 2});
    return bytes;
  }();
  adobe.insert(adobe.begin() + 2, segment.begin(), segment.end());
  adobe.erase(adobe.begin() + static_cast<std::ptrdiff_t>(2 + segment.size()),
              adobe.begin() + static_cast<std::ptrdiff_t>(2 + segment.size() + 18));  // JFIF
  CHECK(decodes(adobe));
  Bytes scan = file;  // claims to contain only the first coefficients
  scan[forebay::testing::begin_of_scan(file) - 2] = std::byte{0};
  CHECK(decodes(scan));
  Bytes surplus = file;
  surplus.insert(surplus.begin() + static_cast<std::ptrdiff_t>(segment_of(0xdb)), 300, std::byte{7});
  CHECK(decodes(surplus));
}

TEST_CASE("every JPEG of the real data is decoded, or refused, as by libjpeg") {
  const auto data = forebay::testing::real_data();
  if (!data) return;
  const std::vector<fs::path> paths = forebay::testing::files_in(*data);
  constexpr std::size_t kStep = forebay::testing::kSanitized ? 9 : 1;
  Twins twins(36);
  for (std::size_t i = 0; i < paths.size(); i += kStep) {
    const Bytes file = forebay::testing::read_bytes(paths[i]);
    if (file.size() < 2 || file[0] != std::byte{0xff} || file[1] != std::byte{0xd8}) continue;
    CAPTURE(paths[i].string());
    twins.compare_any(file, {.max_pixels = 4'000'000});
  }
  MESSAGE(twins.own << " decoded by Forebay, " << twins.library << " by libjpeg, " << twins.refused << " refused");
  CHECK(twins.own > 100);
}

}  // namespace forebay::test_jpeg_own
