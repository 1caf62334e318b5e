#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "jpeg/coefficients.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "taken.hpp"
#include "targets.hpp"

using namespace forebay::jpeg;

// Vector code for each kind of processor that this one can stand in for, compared with the plain
// loops that define its results.
namespace forebay::fuzz {
namespace {

[[noreturn]] void differs(const std::string& what, const char* kernels) {
  throw std::logic_error(what + " by " + kernels + " is not that of the plain loops");
}

// A row of blocks, transformed by one kind of kernels.
struct Transformed {
  static constexpr std::size_t kBlocks = 2 * CoefficientRow::kGroup;
  static constexpr std::size_t kStride = 8 * kBlocks + PixelKernels::kSlack;

  bool is_good = false;
  std::vector<std::uint8_t> samples;
};

struct TransformCase {
  explicit TransformCase(std::string_view input) {
    Taken taken(input);
    for (auto& each : quantiser) each = static_cast<std::uint16_t>(1 + taken.byte() * (taken.byte() % 65));
    for (std::size_t block = 0; block < Transformed::kBlocks; ++block) {
      const std::size_t extent = taken.below(kBlockSize);
      extents[block] = static_cast<std::uint8_t>(extent);
      // Large coefficients are refused at once, so most are small.
      const bool is_large = taken.byte() > 240;
      for (std::size_t k = 0; k <= extent && !taken.is_at_end(); ++k) {
        coefficients[CoefficientRow::place_of(block) + CoefficientRow::kPlaces[k]] =
            is_large ? taken.number<std::int16_t>() : taken.number<std::int8_t>();
      }
    }
  }

  [[nodiscard]] Transformed by(const PixelKernels& kernels) const {
    TransformCase copy = *this;
    Transformed done;
    done.samples.assign(8 * Transformed::kStride, 0);
    done.is_good = kernels.transform(copy.coefficients.data(), copy.extents.data(), Transformed::kBlocks,
                                     quantiser.data(), done.samples.data(), Transformed::kStride);
    for (const std::int16_t each : copy.coefficients) {
      if (each != 0) throw std::logic_error("coefficients are left");
    }
    for (std::size_t y = 0; y < 8; ++y) {  // what follows a row may be anything
      std::fill_n(
          done.samples.begin() + static_cast<std::ptrdiff_t>(y * Transformed::kStride + 8 * Transformed::kBlocks),
          PixelKernels::kSlack, std::uint8_t{0});
    }
    return done;
  }

  alignas(64) std::array<std::int16_t, Transformed::kBlocks * kBlockSize> coefficients{};
  std::array<std::uint8_t, Transformed::kBlocks> extents{};
  alignas(16) std::array<std::uint16_t, kBlockSize> quantiser{};
};

}  // namespace

// The inverse DCT of a row of blocks.
bool use_transform(std::string_view input) {
  const TransformCase row(input);
  const Transformed expected = row.by(scalar_pixel_kernels());
  for (const PixelKernels& kernels : supported_pixel_kernels()) {
    const Transformed found = row.by(kernels);
    if (found.is_good != expected.is_good) differs("what is refused", kernels.name);
    if (expected.is_good && found.samples != expected.samples) differs("a row of samples", kernels.name);
  }
  return expected.is_good;
}

std::vector<std::string> transform_seeds() {
  std::string quantiser;
  for (int k = 0; k < 64; ++k) quantiser += {static_cast<char>(2 + k), '\1'};
  std::vector<std::string> seeds;
  for (const int extent : {0, 3, 63}) {
    std::string seed = quantiser;
    for (std::size_t block = 0; block < Transformed::kBlocks; ++block) {
      seed += {static_cast<char>(extent), '\0'};
      for (int k = 0; k <= extent; ++k) seed += static_cast<char>(k % 16 == 0 ? 1 : 0);
    }
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

}  // namespace forebay::fuzz
