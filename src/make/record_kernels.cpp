#include "record_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <hwy/highway.h>

#include "held_math.hpp"

namespace forebay {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers in a place are");

constexpr unsigned kMostValueBits = 14;

// Bits to the bytes of a record, the lowest first. Writes up to four bytes more than there are.
class BitWriter {
 public:
  explicit BitWriter(std::uint8_t* to) noexcept : to_(to) {}
  // REQUIRES: count <= kMostValueBits; no bits above it
  void put(std::uint32_t bits, unsigned count) noexcept {
    waiting_ |= std::uint64_t{bits} << waiting_count_;
    waiting_count_ += count;
    if (waiting_count_ < 32) return;
    store();
    to_ += 4;
    waiting_ >>= 32U;
    waiting_count_ -= 32;
  }
  // Behind the last byte.
  [[nodiscard]] std::uint8_t* finish() noexcept {
    store();
    return to_ + (waiting_count_ + 7) / 8;
  }

 private:
  void store() noexcept {
    const auto word = static_cast<std::uint32_t>(waiting_);
    std::memcpy(to_, &word, sizeof word);
  }

  std::uint8_t* to_;
  std::uint64_t waiting_ = 0;
  unsigned waiting_count_ = 0;
};
static_assert(kHeldSlack >= 4);

std::uint32_t magnitude_of(std::int16_t value) noexcept {
  return static_cast<std::uint32_t>(std::abs(std::int32_t{value}));
}

// The coefficients of a block but the first, those alone that are not 0.
struct BlockValues {
  std::array<std::int16_t, kBlockSize> all;
  std::size_t count = 0;
  std::size_t octets = 0;
  std::array<std::uint8_t, kOctets> masks{};
  std::array<unsigned, kOctets> widths{};
  std::uint64_t weight = 0;  // of all coefficients

  // Without a branch for each coefficient, since most of those would be foretold wrongly.
  BlockValues(const std::int16_t* block, std::size_t extent, const RecordWeights& weights) noexcept {
    const auto weight_of = [&](std::size_t k) { return static_cast<std::uint64_t>(weights[k]); };
    weight = weight_of(0) * magnitude_of(block[0]);
    for (std::size_t octet = 0; 8 * octet <= extent; ++octet) {
      std::uint32_t mask = 0;
      std::uint32_t largest = 0;  // of what is coded for magnitudes, or-ed
      for (std::size_t k = std::max<std::size_t>(8 * octet, 1); k < 8 * octet + 8; ++k) {
        const std::int16_t value = block[CoefficientRow::kPlaces[k]];
        const std::uint32_t magnitude = magnitude_of(value);
        const std::uint32_t is_there = value != 0 ? 1 : 0;
        all[count] = value;
        count += is_there;
        mask |= is_there << (k % 8);
        largest |= magnitude - is_there;
        weight += weight_of(k) * magnitude;
      }
      if (mask == 0) continue;
      masks[octet] = static_cast<std::uint8_t>(mask);
      widths[octet] = 1 + static_cast<unsigned>(std::bit_width(largest));
      octets = octet + 1;
    }
  }
};

std::size_t write_scalar(const std::int16_t* block, std::size_t extent, const RecordWeights& weights,
                         std::uint32_t most, std::uint8_t* record, bool& is_heavy) noexcept {
  const std::int32_t first = block[0];
  if (first < -2048 || first > 2047) return 0;
  const BlockValues values(block, extent, weights);
  if (values.weight > most) is_heavy = true;
  const auto head = static_cast<std::uint32_t>(first) << 4U | static_cast<std::uint32_t>(values.octets);
  record[0] = static_cast<std::uint8_t>(head & 0xffU);
  record[1] = static_cast<std::uint8_t>(head >> 8U & 0xffU);
  std::uint8_t* to = record + 2;
  for (std::size_t i = 0; i < values.octets; i += 2) {
    const unsigned odd = i + 1 < values.octets ? values.widths[i + 1] : 0;
    if (values.widths[i] > kMostValueBits || odd > kMostValueBits) return 0;
    *to++ = static_cast<std::uint8_t>(values.widths[i] | odd << 4U);
  }
  for (std::size_t i = 0; i < values.octets; ++i) {
    *to = values.masks[i];
    to += values.masks[i] != 0 ? 1 : 0;
  }
  BitWriter bits(to);
  const std::int16_t* value = values.all.data();
  for (std::size_t i = 0; i < values.octets; ++i) {
    for (int left = std::popcount(values.masks[i]); left > 0; --left, ++value) {
      bits.put(2 * (magnitude_of(*value) - 1) + (*value < 0 ? 1U : 0U), values.widths[i]);
    }
  }
  return static_cast<std::size_t>(bits.finish() - record);
}

std::uint8_t read_scalar(const std::uint8_t* record, std::int16_t* block) noexcept {
  block[0] = static_cast<std::int16_t>(first_coefficient(record));
  std::size_t last = 0;
  const std::int32_t octets = octets_of(record);
  for (std::int32_t octet = 0; octet < octets; ++octet) {
    const HeldOctet values = octet_of(record, octet);
    std::int32_t at = values.at;
    for (std::uint32_t mask = values.mask; mask != 0; mask &= mask - 1, at += values.width) {
      last = 8 * static_cast<std::size_t>(octet) + static_cast<std::size_t>(std::countr_zero(mask));
      block[CoefficientRow::kPlaces[last]] = static_cast<std::int16_t>(held_value(record, at, values.width));
    }
  }
  return static_cast<std::uint8_t>(last);
}

constexpr RecordKernels kScalarRecords{"scalar", write_scalar, read_scalar};

std::vector<RecordKernels> make_supported_records() {
  std::vector<RecordKernels> all;
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    RecordKernels kernels = kScalarRecords;
    kernels.name = hwy::TargetName(target);
    set_record_kernels(target, kernels);
    if (kernels.write != kScalarRecords.write) all.push_back(kernels);
  }
  all.push_back(kScalarRecords);
  return all;
}

}  // namespace

const RecordKernels& scalar_record_kernels() noexcept { return kScalarRecords; }

std::span<const RecordKernels> supported_record_kernels() {
  static const std::vector<RecordKernels> all = make_supported_records();
  return all;
}

}  // namespace forebay
