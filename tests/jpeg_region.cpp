#include "jpeg_parts.hpp"
#include "jpeg_samplings.hpp"
#include "jpeg_support.hpp"
#include "make/jpeg_decoder.hpp"
#include "test.hpp"

// Compares decoding a part of an image with decoding all of it.
namespace forebay::test_jpeg_region {
namespace {

namespace fs = std::filesystem;
using namespace forebay::make;
using namespace forebay::testing;
using Bytes = std::vector<std::byte>;

constexpr ImageOptions kBounded{.exif = true, .max_pixels = 4'000'000};

Box whole(ImageSize size) { return {0, 0, size.width, size.height}; }

// Decodes a part and returns the error; empty if there is none.
std::string refusal(JpegDecoder& decoder, const Bytes& file, const std::optional<Box>& region, std::int32_t shrink,
                    Image& image, const ImageOptions& options = kBounded) {
  return testing::error_of<SampleError>([&] {
    const auto size = decoder.open(file, options);
    decoder.decode(region.value_or(whole(size)), shrink, image);
  });
}

// Compares regions of one file with the whole, at one scale; every third is narrow and at the right edge.
// Returns how many were compared.
int compare_regions(JpegDecoder& decoder, const Bytes& file, std::int32_t shrink, int regions, Random& random) {
  Image image;
  if (!refusal(decoder, file, std::nullopt, shrink, image).empty()) return 0;
  Image part;
  for (int i = 0; i < regions; ++i) {
    const auto size = decoder.open(file, kBounded);
    auto region = random_region(random, size);
    if (i % 3 == 1)
      region = {size.width - 1 - below(random, std::min(size.width, 4)), region.top, size.width, region.bottom};
    decoder.decode(region, shrink, part);
    const bool equal = is_part_of(part, image, region);
    CHECK_MESSAGE(equal, text_of(region) << " of " << size.width << "x" << size.height << " at 1/" << shrink);
  }
  return regions;
}

Recipe kind(J_COLOR_SPACE input, J_COLOR_SPACE stored, int components,
            std::initializer_list<std::pair<int, int>> sampling) {
  Recipe recipe;
  recipe.input = input;
  recipe.stored = stored;
  recipe.components = components;
  recipe.sampling = sampling;
  return recipe;
}

// Every colour space, with common and unusual samplings.
std::vector<Recipe> kinds() {
  const std::pair<int, int> one{1, 1};
  std::vector<Recipe> recipes{
      kind(JCS_GRAYSCALE, JCS_GRAYSCALE, 1, {one}),
      kind(JCS_GRAYSCALE, JCS_GRAYSCALE, 1, {{2, 2}}),
      kind(JCS_RGB, JCS_RGB, 3, {one, one, one}),
      kind(JCS_CMYK, JCS_CMYK, 4, {one, one, one, one}),
      kind(JCS_CMYK, JCS_YCCK, 4, {{2, 2}, one, one, {2, 2}}),
      kind(JCS_CMYK, JCS_YCCK, 4, {{2, 1}, one, one, {2, 1}}),
      kind(JCS_RGB, JCS_YCbCr, 3, {{2, 2}, {2, 1}, {1, 2}}),
      kind(JCS_RGB, JCS_YCbCr, 3, {one, {2, 2}, {2, 2}}),
      kind(JCS_RGB, JCS_YCbCr, 3, {{4, 4}, {2, 2}, one}),
      kind(JCS_RGB, JCS_YCbCr, 3, {{3, 1}, one, one}),
  };
  for (const auto& luma : {one, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {1, 4}, {2, 4}}) {
    recipes.push_back(kind(JCS_RGB, JCS_YCbCr, 3, {luma, one, one}));
  }
  std::erase_if(recipes, [](const Recipe& recipe) {  // an MCU has at most ten blocks
    int blocks = 0;
    for (const auto& [h, v] : recipe.sampling) blocks += h * v;
    return blocks > 10;
  });
  return recipes;
}

// The same image in every kind of coding.
std::vector<Recipe> codings(const Recipe& recipe) {
  std::vector<Recipe> all(8, recipe);
  all[1].restart_interval = 3;
  all[2].progressive = true;
  all[3].progressive = true;
  all[3].restart_interval = 2;
  all[4].arithmetic = true;
  all[5].arithmetic = all[5].progressive = true;
  all[6].separate_scans = true;
  all[7].rough = true;
  return all;
}

}  // namespace

TEST_CASE("a region has the pixels of the full decode: every colour space, sampling, coding and orientation") {
  Random random = testing::random_from(20);
  JpegDecoder decoder(either_way());
  int compared = 0;
  for (const auto& base : kinds()) {
    for (auto recipe : codings(base)) {
      for (int round = 0; round < 6; ++round) {
        recipe.width = 1 + below(random, round < 3 ? 150 : 40);
        recipe.height = 1 + below(random, round < 3 ? 150 : 40);
        const int orientation = 1 + below(random, 8);
        recipe.app1 = exif_segment(orientation);
        const auto file = make_jpeg(recipe);
        CAPTURES(recipe.stored, recipe.sampling[0].first, recipe.sampling[0].second, recipe.progressive);
        CAPTURES(recipe.arithmetic, recipe.separate_scans, recipe.rough, orientation);
        for (const std::int32_t shrink : {1, 2, 4, 8}) {
          compared += compare_regions(decoder, file, shrink, shrink == 1 ? 12 : 3, random);
        }
      }
    }
  }
  CHECK(compared > 10'000);
}

// Every pair of a sampling along one axis and a width is tested, each with several samplings along
// the other axis.
TEST_CASE("a region has the pixels of the full decode: every sampling of three components, widths 1 to 70") {
  constexpr std::array<std::int32_t, 6> kShrinks{1, 1, 1, 2, 4, 8};
  constexpr std::size_t kStep = kSanitized ? 11 : 7;
  Twins twins(25);
  Random& random = twins.random();
  JpegDecoder decoder;
  int compared = 0;
  const std::vector<Factors> factors = decodable_factors();
  CHECK(factors.size() == 34);
  for (const Factors& across : factors) {
    for (std::size_t d = 0; d < factors.size(); ++d) {
      const Factors& down = factors[d];
      CAPTURE(text_of(across, down));
      for (auto width = static_cast<std::int32_t>(1 + d % kStep); width <= kWidest; width += kStep) {
        const ImageSize size{width, 1 + below(random, below(random, 3) == 0 ? kHighest : 24)};
        const Bytes file = make_sampled_file(across, down, random, 75, size);
        const std::int32_t shrink = kShrinks[random.below(kShrinks.size())];
        compared += compare_regions(decoder, file, shrink, 2, random);
        for (int i = 0; i < 2 && shrink == 1; ++i) twins.compare_any(file);
      }
    }
  }
  CHECK(compared > 9'000);
  CHECK(twins.own > 1'000);
  CHECK(twins.refused == 0);
}

TEST_CASE("an image of one line or column, and regions at every edge") {
  Random random(21);
  JpegDecoder decoder(either_way());
  Recipe recipe;
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 200}, {200, 1}, {2, 2}, {17, 16}, {33, 33}, {34, 35}}) {
    recipe.width = width;
    recipe.height = height;
    const auto file = make_jpeg(recipe);
    CHECK(compare_regions(decoder, file, 1, 200, random) == 200);
    CHECK(compare_regions(decoder, file, 8, 50, random) == 50);
  }
}

TEST_CASE("regions of photographs have the pixels of the full decode") {
  const auto data = forebay::testing::real_data();
  const auto files = data ? forebay::testing::files_in(*data / "photos") : std::vector<fs::path>{};
  if (files.empty()) {
    MESSAGE("SKIPPED: no photographs");
    return;
  }
  Random random = testing::random_from(22);
  JpegDecoder decoder(either_way());
  int compared = 0;
  for (std::size_t i = 0; i < files.size(); i += 4) {
    const auto file = forebay::testing::read_bytes(files[i]);
    CAPTURE(files[i].string());
    for (const std::int32_t shrink : {1, 1, 2, 4, 8}) compared += compare_regions(decoder, file, shrink, 2, random);
  }
  CHECK(compared > 500);
}

TEST_CASE("of odd and damaged files a region has the pixels of the full decode where that succeeds") {
  const auto data = forebay::testing::real_data();
  if (!data || !fs::exists(*data / "odd")) {
    MESSAGE("SKIPPED: no odd files");
    return;
  }
  Random random = testing::random_from(23);
  JpegDecoder decoder(either_way());
  int compared = 0;
  int refused = 0;
  int seen_less = 0;  // damaged files of which a region was decoded
  for (const char* folder : {"odd/jpeg", "made/jpeg", "made/misnamed"}) {
    for (const auto& path : forebay::testing::files_in(*data / folder)) {
      const auto file = forebay::testing::read_bytes(path);
      CAPTURE(path.string());
      const int regions = compare_regions(decoder, file, 1, 3, random);
      compared += regions + compare_regions(decoder, file, 2, 1, random);
      if (regions > 0) continue;
      ++refused;
      Image part;
      if (refusal(decoder, file, Box{0, 0, 1, 1}, 1, part).empty()) ++seen_less;
    }
  }
  MESSAGE(compared << " regions compared; " << refused << " files refused, of " << seen_less
                   << " of them the first pixel is decoded");
  CHECK(compared > 100);
}

TEST_CASE("a file cut short is refused whatever part of it is wanted") {
  JpegDecoder decoder(either_way());
  Recipe recipe;
  recipe.width = 160;
  recipe.height = 120;
  recipe.app1 = exif_segment(6);
  recipe.app1.push_back(std::byte{0xff});  // an end marker before the scan, as in a thumbnail
  recipe.app1.push_back(std::byte{0xd9});
  for (const auto& coded : codings(recipe)) {
    const auto file = make_jpeg(coded);
    Image image;
    for (const auto& region : {Box{0, 0, 1, 1}, Box{10, 20, 60, 70}, Box{0, 0, 120, 160}}) {
      REQUIRE(refusal(decoder, file, region, 1, image).empty());
      for (std::size_t sixteenths = 0; sixteenths <= 16; ++sixteenths) {
        const auto size = std::min(file.size() * sixteenths / 16, file.size() - 1);
        const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
        CHECK_MESSAGE(!refusal(decoder, cut, region, 1, image).empty(), size << " of " << file.size() << " bytes");
      }
    }
  }
}

TEST_CASE("damage above or inside the rows that are wanted is found, below them it is not") {
  JpegDecoder decoder(either_way());
  Recipe recipe;
  recipe.width = recipe.height = 256;
  recipe.restart_interval = 16;  // one row of MCUs, which confines damage
  auto file = make_jpeg(recipe);
  // The eighth restart marker, RST7, is removed: rows 128 and below are damaged.
  constexpr std::array kRst7{std::byte{0xff}, std::byte{0xd7}};
  const auto rst7 = std::search(file.begin(), file.end(), kRst7.begin(), kRst7.end());
  REQUIRE(rst7 != file.end());
  *(rst7 + 1) = std::byte{0xd2};
  Image image;
  const Box above{0, 0, 256, 100};
  const Box across{100, 100, 120, 140};
  const Box below{100, 200, 120, 210};
  for (int round = 0; round < 2; ++round) {  // independent of what was decoded before
    CHECK(refusal(decoder, file, above, 1, image).empty());
    CHECK_FALSE(refusal(decoder, file, across, 1, image).empty());
    CHECK_FALSE(refusal(decoder, file, below, 1, image).empty());
    CHECK_FALSE(refusal(decoder, file, std::nullopt, 1, image).empty());
  }
}

TEST_CASE("after any damage a part is decoded, or refused, as by a new decoder") {
  Random random = testing::random_from(24);
  JpegDecoder decoder(either_way());
  const auto all = kinds();
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    auto recipe = codings(all[random.below(all.size())])[random.below(8)];
    recipe.width = 1 + below(random, 100);
    recipe.height = 1 + below(random, 100);
    recipe.app1 = exif_segment(1 + below(random, 8));
    auto file = make_jpeg(recipe);
    for (std::uint64_t i = 0, n = 1 + random.below(4); i < n; ++i) {
      file[2 + random.below(file.size() - 2)] = static_cast<std::byte>(random.bits() & 0xffU);
    }
    CAPTURES(round, recipe.stored, recipe.progressive, recipe.rough);
    try {
      const auto size = decoder.open(file, kBounded);
      const auto region = random_region(random, size);
      const auto shrink = 1 << random.below(4);
      CAPTURES(text_of(region), shrink);
      Image image;
      Image again;
      const auto reason = refusal(decoder, file, region, shrink, image);
      JpegDecoder fresh;
      CHECK(refusal(fresh, file, region, shrink, again) == reason);
      if (!reason.empty()) {
        ++refused;
        continue;
      }
      CHECK(is_part_of(image, again, region));
      Image full;  // the whole may be damaged although the part is not
      if (refusal(decoder, file, std::nullopt, shrink, full).empty()) CHECK(is_part_of(image, full, region));
    } catch (const forebay::SampleError&) {
      ++refused;
    }
  }
  CHECK(refused > 200);
}

TEST_CASE("a header can be opened without decoding, again and again") {
  JpegDecoder decoder(either_way());
  Recipe recipe;
  recipe.app1 = exif_segment(6);
  const auto file = make_jpeg(recipe);
  for (int i = 0; i < 3; ++i) {
    const auto size = decoder.open(file, {});
    CHECK(size.width == recipe.height);
    CHECK(size.height == recipe.width);
  }
  CHECK(decoder.open(file, {.exif = false}).width == recipe.width);
  Image image;
  CHECK(refusal(decoder, file, std::nullopt, 1, image).empty());
}

TEST_CASE("a large pixel buffer is given back when images stay small") {
  Image image;
  image.resize(4000, 4000);
  const auto large = image.pixels.capacity();
  CHECK(large >= std::size_t{48'000'000});
  for (int i = 0; i < Image::kPatience - 1; ++i) image.resize(500, 375);
  image.resize(4000, 4000);  // needed soon enough: kept
  CHECK(image.pixels.capacity() == large);
  for (int i = 0; i < Image::kPatience; ++i) image.resize(500, 375);
  CHECK(image.pixels.capacity() <= Image::kKeptBytes);
  CHECK(image.pixels.size() >= std::size_t{500} * 375 * 3);
  const auto* kept = image.pixels.data();
  for (int i = 0; i < 3 * Image::kPatience; ++i) image.resize(500, 375);
  CHECK(image.pixels.data() == kept);
}

}  // namespace forebay::test_jpeg_region
