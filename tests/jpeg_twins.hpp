#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "jpeg/pixel_kernels.hpp"
#include "jpeg_parts.hpp"
#include "make/jpeg_decoder.hpp"

// Forebay's own decoding of JPEG files beside libjpeg-turbo's.
namespace forebay::testing {

inline constexpr std::int64_t kMostTwinPixels = 1'000'000;

inline const PixelKernels* twin_kernels() {
  const auto* const trusted = trusted_pixel_kernels();
  REQUIRE(trusted != nullptr);
  return trusted;
}

struct TwinResult {
  std::optional<ImageSize> size;  // if the header was accepted
  std::string refusal;            // empty: decoded
  bool is_own = false;
};

// `region` chooses from the size.
template <typename Region>
TwinResult decode(JpegDecoder& decoder, const std::vector<std::byte>& file, const ImageOptions& options,
                  const Region& region, Image& image) {
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

// Both decoders, side by side.
class Twins {
 public:
  explicit Twins(std::uint64_t seed) : random_(seed), own_(twin_kernels()) { MESSAGE("seed " << seed); }

  [[nodiscard]] Random& random() noexcept { return random_; }

  // Decodes a region, and gives back whether that was Forebay's own work.
  bool compare(const std::vector<std::byte>& file, const Box& region,
               const ImageOptions& options = {.max_pixels = kMostTwinPixels}) {
    const auto given = [&](ImageSize) { return region; };
    return compare_with(file, options, given);
  }
  bool compare_any(const std::vector<std::byte>& file, const ImageOptions& options = {.max_pixels = kMostTwinPixels}) {
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
  bool compare_with(const std::vector<std::byte>& file, const ImageOptions& options, const Region& region) {
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
  JpegDecoder own_;
  JpegDecoder turbo_;
  Image found_;
  Image expected_;
};

}  // namespace forebay::testing
