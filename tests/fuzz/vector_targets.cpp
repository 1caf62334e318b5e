#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "jpeg/coefficients.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "make/held_jpeg.hpp"
#include "make/record_kernels.hpp"
#include "taken.hpp"
#include "targets.hpp"

// Vector code for each kind of processor that this one can stand for, beside the plain loops that define its results.
namespace forebay::fuzz {
namespace {

using Group = std::array<std::int16_t, CoefficientRow::kGroup * kBlockSize>;

[[noreturn]] void differs(const std::string& what, const char* kernels) {
  throw std::logic_error(what + " by " + kernels + " is not that of the plain loops");
}

// A block among others, and how it is to be written.
struct RecordCase {
  explicit RecordCase(std::string_view input) {
    Taken taken(input);
    place = CoefficientRow::place_of(taken.below(CoefficientRow::kGroup));
    extent = taken.below(kBlockSize);
    most = static_cast<std::uint32_t>(taken.number<std::uint16_t>() % 4001);
    const auto heaviest = static_cast<std::uint32_t>(taken.number<std::uint16_t>() % 32768);
    const std::uint8_t steps = taken.byte();
    for (std::size_t k = 0; k < kBlockSize; ++k) {
      weights[k] = static_cast<std::int16_t>((heaviest + k * steps) % 32768);
    }
    group.fill(0x7fff);  // of the others
    for (std::size_t k = 0; k < kBlockSize; ++k) {
      std::int16_t& value = group[place + CoefficientRow::kPlaces[k]];
      value = k <= extent ? taken.number<std::int16_t>() : std::int16_t{0};
      if (value != 0) last = k;
    }
  }

  alignas(64) Group group{};
  std::size_t place = 0;
  std::size_t extent = 0;
  std::size_t last = 0;
  std::uint32_t most = 0;
  RecordWeights weights{};
};

struct Written {
  std::vector<std::uint8_t> bytes;  // the record and what may be behind it; empty: there is none
  bool is_heavy = false;
};

Written write(const RecordKernels& kernels, const RecordCase& block) {
  constexpr std::uint8_t kUntouched = 0xa5;
  Written written;
  written.bytes.assign(kMostRecordBytes + kHeldSlack, kUntouched);
  const std::size_t length = kernels.write(block.group.data() + block.place, block.extent, block.weights, block.most,
                                           written.bytes.data(), written.is_heavy);
  if (length == 0) return {};
  if (length > kMostRecordBytes) throw std::logic_error("a record is longer than any can be");
  const auto behind = std::span(written.bytes).subspan(length + kHeldSlack);
  if (!std::ranges::all_of(behind, [](std::uint8_t byte) { return byte == kUntouched; })) {
    throw std::logic_error(std::string(kernels.name) + " wrote further behind a record than it may");
  }
  written.bytes.resize(length);
  return written;
}

// From memory that ends where nothing more may be read.
void read_back(const RecordKernels& kernels, std::span<const std::uint8_t> record, const RecordCase& block) {
  std::vector<std::uint8_t> exact;
  exact.reserve(record.size() + kHeldSlack);
  exact.assign(record.begin(), record.end());
  exact.resize(record.size() + kHeldSlack, 0xff);
  alignas(64) Group found = block.group;
  for (const std::uint8_t at : CoefficientRow::kPlaces) found[block.place + at] = 0;
  if (kernels.read(exact.data(), found.data() + block.place) != block.last) differs("an extent read", kernels.name);
  if (found != block.group) differs("a block read", kernels.name);
}

// A row of blocks, by one kind of kernels.
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
      // Large ones are refused at once, so most are small.
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
    for (std::size_t y = 0; y < 8; ++y) {  // what is behind a row may be anything
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

// The record of a block of held coefficients.
bool use_records(std::string_view input) {
  const RecordCase block(input);
  const Written expected = write(scalar_record_kernels(), block);
  for (const RecordKernels& kernels : supported_record_kernels()) {
    const Written found = write(kernels, block);
    if (found.bytes != expected.bytes) differs("a record", kernels.name);
    if (found.is_heavy != expected.is_heavy) differs("the weight of a record", kernels.name);
    if (!expected.bytes.empty()) read_back(kernels, expected.bytes, block);
  }
  return !expected.bytes.empty();
}

std::vector<std::string> records_seeds() {
  std::vector<std::string> seeds;
  for (const int extent : {0, 7, 8, 20, 63}) {
    std::string seed{static_cast<char>(extent % 4), static_cast<char>(extent), '\xa0', '\x0f', '\x03', '\0', '\1'};
    for (int k = 0; k <= extent; ++k) seed += {static_cast<char>(k * k % 5 == 0 ? 0 : 3 * k), k % 7 == 3 ? '\1' : '\0'};
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

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
