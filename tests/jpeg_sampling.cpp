#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "jpeg/pixel_kernels.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_samplings.hpp"
#include "make/jpeg_decoder.hpp"
#include "support.hpp"

// Parts of an image against all of it, for every way in which three components can be sampled.
namespace {

using forebay::Box;
using forebay::Image;
using forebay::ImageSize;
using forebay::JpegDecoder;
using forebay::Random;
using forebay::testing::below;
using forebay::testing::decodable_factors;
using forebay::testing::Factors;
using forebay::testing::kHighest;
using forebay::testing::kWidest;
using Bytes = std::vector<std::byte>;

// Any region, or one that begins near the right edge, where a part is narrow.
Box region_of(Random& random, ImageSize size, bool at_edge) {
  Box region = forebay::testing::random_region(random, size);
  if (at_edge)
    region = {size.width - 1 - below(random, std::min(size.width, 4)), region.top, size.width, region.bottom};
  return region;
}

class Comparison {
 public:
  explicit Comparison(std::uint64_t seed) : random_(seed), own_(forebay::trusted_pixel_kernels()) {}

  [[nodiscard]] Random& random() noexcept { return random_; }
  [[nodiscard]] int compared() const noexcept { return compared_; }
  // Regions that Forebay decoded without libjpeg.
  [[nodiscard]] int own_decodes() const noexcept { return own_decodes_; }

  // Some regions of the file against all of it, at one scale.
  void compare(const Bytes& file, ImageSize size, std::int32_t shrink, const std::string& sampling) {
    decoder_.open(file, {});
    decoder_.decode({0, 0, size.width, size.height}, shrink, image_);
    for (const bool at_edge : {false, true}) {
      const Box region = region_of(random_, size, at_edge);
      for (JpegDecoder* const decoder : {&decoder_, &own_}) {
        if (decoder == &own_ && shrink > 1) continue;
        decoder->open(file, {});
        decoder->decode(region, shrink, part_);
        const bool equal = forebay::testing::is_part_of(part_, image_, region);
        CHECK_MESSAGE(equal, sampling << forebay::testing::text_of(region) << " of " << size.width << "x" << size.height
                                      << " at 1/" << shrink << (decoder == &own_ ? " by Forebay" : ""));
        own_decodes_ += decoder->was_own() ? 1 : 0;
      }
      ++compared_;
    }
  }

 private:
  Random random_;
  JpegDecoder decoder_;
  JpegDecoder own_;
  Image image_;
  Image part_;
  int compared_ = 0;
  int own_decodes_ = 0;
};

}  // namespace

// Every pair of a sampling along one axis and a width is compared, each with several samplings along the other axis.
TEST_CASE("a region has the pixels of the full decode: every sampling of three components, widths 1 to 70") {
  constexpr std::uint64_t kSeed = 22;
  constexpr std::array<std::int32_t, 6> kShrinks{1, 1, 1, 2, 4, 8};
  constexpr std::size_t kStep = forebay::testing::kSanitized ? 11 : 7;
  MESSAGE("seed " << kSeed);
  Comparison comparison(kSeed);
  Random& random = comparison.random();
  const std::vector<Factors> factors = decodable_factors();
  CHECK(factors.size() == 34);
  for (const Factors& across : factors) {
    for (std::size_t d = 0; d < factors.size(); ++d) {
      const Factors& down = factors[d];
      const std::string sampling = forebay::testing::text_of(across, down);
      for (auto width = static_cast<std::int32_t>(1 + d % kStep); width <= kWidest; width += kStep) {
        const ImageSize size{width, 1 + below(random, below(random, 3) == 0 ? kHighest : 24)};
        const Bytes file = forebay::testing::make_sampled_file(across, down, random, 75, size);
        comparison.compare(file, size, kShrinks[random.below(kShrinks.size())], sampling);
      }
    }
  }
  CHECK(comparison.compared() > 9'000);
  MESSAGE(comparison.own_decodes() << " regions decoded by Forebay");
  CHECK(comparison.own_decodes() > 1'000);
}
