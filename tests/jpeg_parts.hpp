#pragma once

// Compares parts of an image with the whole.
#include "jpeg/pixel_kernels.hpp"
#include "make/image.hpp"
#include "make/jpeg_decoder.hpp"
#include "test.hpp"

namespace forebay::testing {

inline std::int32_t below(Random& random, std::int32_t bound) {
  return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(bound)));
}

inline Box random_region(Random& random, make::ImageSize size) {
  const auto left = below(random, size.width);
  const auto top = below(random, size.height);
  return {left, top, left + 1 + below(random, size.width - left), top + 1 + below(random, size.height - top)};
}

inline bool covers(const Box& area, const Box& region) {
  return area.left <= region.left && area.top <= region.top && area.right >= region.right &&
         area.bottom >= region.bottom;
}

// Whether `part` covers the region and all of its pixels are those of the whole image.
inline bool is_part_of(const make::Image& part, const make::Image& image, const Box& region) {
  if (part.shrink != image.shrink || !covers(part.area, region)) return false;
  if (part.area.width() != part.width * part.shrink || part.area.height() != part.height * part.shrink) return false;
  const Box in_part = part.place_of(region);
  const Box in_image = image.place_of(region);
  if (in_part.width() != in_image.width() || in_part.height() != in_image.height()) return false;
  for (std::int32_t y = 0; y < in_part.height(); ++y) {
    const auto* expected = image.row(in_image.top + y) + std::ptrdiff_t{3} * in_image.left;
    if (!std::equal(expected, expected + std::ptrdiff_t{3} * in_image.width(),
                    part.row(in_part.top + y) + std::ptrdiff_t{3} * in_part.left)) {
      return false;
    }
  }
  return true;
}

inline std::string text_of(const Box& box) {
  return "(" + std::to_string(box.left) + "," + std::to_string(box.top) + "," + std::to_string(box.right) + "," +
         std::to_string(box.bottom) + ")";
}

// Whether two images, which must both cover the region, show the same in it.
inline bool same_region(const make::Image& a, const make::Image& b, const Box& region) {
  if (!covers(a.area, region) || !covers(b.area, region)) return false;
  const auto bytes = static_cast<std::size_t>(region.width()) * 3;
  for (std::int32_t y = region.top; y < region.bottom; ++y) {
    const auto* const left = a.row(y - a.area.top) + static_cast<std::ptrdiff_t>(region.left - a.area.left) * 3;
    const auto* const right = b.row(y - b.area.top) + static_cast<std::ptrdiff_t>(region.left - b.area.left) * 3;
    if (!std::equal(left, left + bytes, right)) return false;
  }
  return true;
}

// The kernels for a JpegDecoder. Runs the test case twice: with Forebay's own decoding of plain
// files, and with libjpeg-turbo only (null). Call it once per test case.
inline const jpeg::PixelKernels* either_way() {
  SUBCASE("own") {
    const jpeg::PixelKernels* const kernels = jpeg::trusted_pixel_kernels();
    REQUIRE(kernels != nullptr);
    return kernels;
  }
  SUBCASE("libjpeg-turbo") {}
  return nullptr;
}

// Compares Forebay's own decoding of JPEG files with libjpeg-turbo's.
inline constexpr std::int64_t kMostTwinPixels = 1'000'000;

inline const jpeg::PixelKernels* twin_kernels() {
  const auto* const trusted = jpeg::trusted_pixel_kernels();
  REQUIRE(trusted != nullptr);
  return trusted;
}

struct TwinResult {
  std::optional<make::ImageSize> size;  // set if the header was accepted
  std::string refusal;                  // empty: decoded
  bool is_own = false;
};

// `region` maps the image's size to a region.
template <typename Region>
TwinResult decode(make::JpegDecoder& decoder, const std::vector<std::byte>& file, const make::ImageOptions& options,
                  const Region& region, make::Image& image) {
  TwinResult result;
  try {
    result.size = decoder.open(file, options);
    decoder.decode(region(*result.size), 1, image);
    result.is_own = decoder.was_own();
  } catch (const SampleError& error) {
    result.refusal = error.what();
  }
  return result;
}

// Both decoders, whose results are compared.
class Twins {
 public:
  explicit Twins(std::uint64_t seed) : random_(seed), own_(twin_kernels()) { MESSAGE("seed " << seed); }

  [[nodiscard]] Random& random() noexcept { return random_; }

  // Decodes a region with both. Returns whether Forebay decoded it without libjpeg.
  bool compare(const std::vector<std::byte>& file, const Box& region,
               const make::ImageOptions& options = {.max_pixels = kMostTwinPixels}) {
    const auto given = [&](make::ImageSize) { return region; };
    return compare_with(file, options, given);
  }
  bool compare_any(const std::vector<std::byte>& file,
                   const make::ImageOptions& options = {.max_pixels = kMostTwinPixels}) {
    const std::uint64_t seed = random_.bits();
    const auto any = [&](make::ImageSize size) {
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
  bool compare_with(const std::vector<std::byte>& file, const make::ImageOptions& options, const Region& region) {
    const TwinResult expected = decode(turbo_, file, options, region, expected_);
    const TwinResult found = decode(own_, file, options, region, found_);
    CHECK(found.refusal == expected.refusal);
    CHECK_FALSE(expected.is_own);
    if (expected.refusal.empty() && found.refusal.empty()) {
      CHECK(same_region(found_, expected_, region(*expected.size)));
    }
    ++(!found.refusal.empty() ? refused : found.is_own ? own : library);
    return found.is_own;
  }

  Random random_;
  make::JpegDecoder own_;
  make::JpegDecoder turbo_;
  make::Image found_;
  make::Image expected_;
};

}  // namespace forebay::testing
