#include "jpeg_holder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "held_math.hpp"

namespace forebay {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers in a place are");

// What the inverse DCT of a block cannot exceed where this much or less is in it: the first coefficient counts once and
// each other one twice, for their shares of a sample, 1 / 8 and 1 / 4 at most. Then no sample is outside -500..500, nor
// a value between the passes outside -16000..16000, which is within PixelKernels::transform's bounds.
constexpr std::uint64_t kSurelyExact = 4000;

constexpr unsigned kMostValueBits = 15;

// Bits to the bytes of a record, the lowest first. Writes up to three bytes more than there are.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) noexcept : to_(to) {}
  // REQUIRES: count <= 15; no bits above it
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
  [[nodiscard]] std::byte* finish() noexcept {
    store();
    return to_ + (waiting_count_ + 7) / 8;
  }

 private:
  void store() noexcept {
    const auto word = static_cast<std::uint32_t>(waiting_);
    std::memcpy(to_, &word, sizeof word);
  }

  std::byte* to_;
  std::uint64_t waiting_ = 0;
  unsigned waiting_count_ = 0;
};
static_assert(kHeldSlack >= 3);

// The coefficients of a block but the first, those alone that are not 0.
struct Values {
  std::array<std::int16_t, kBlockSize> all;
  std::size_t count = 0;
  std::size_t octets = 0;
  std::array<std::uint8_t, kOctets> masks{};
  std::array<unsigned, kOctets> widths{};
  std::uint64_t weight = 0;  // of all coefficients, as kSurelyExact says

  // Without a branch for each coefficient, since most of those would be foretold wrongly.
  Values(const std::int16_t* block, std::size_t extent, const std::uint32_t* weights) noexcept {
    weight = std::uint64_t{weights[0]} * magnitude_of(block[0]);
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
        weight += std::uint64_t{weights[k]} * magnitude;
      }
      if (mask == 0) continue;
      masks[octet] = static_cast<std::uint8_t>(mask);
      widths[octet] = 1 + static_cast<unsigned>(std::bit_width(largest));
      octets = octet + 1;
    }
  }
  [[nodiscard]] static std::uint32_t magnitude_of(std::int16_t value) noexcept {
    return static_cast<std::uint32_t>(std::abs(std::int32_t{value}));
  }
};

}  // namespace

// REQUIRES: kMostRecordBytes and kHeldSlack fit behind end_
std::size_t JpegHolder::hold_block(const std::int16_t* block, std::size_t extent, Row& row) {
  const std::int32_t first = block[0];
  if (first < -2048 || first > 2047) return 0;
  const Values values(block, extent, row.weights.data());
  row.is_doubtful = row.is_doubtful || values.weight > kSurelyExact;
  std::byte* const record = place_.data() + end_;
  const auto head = static_cast<std::uint32_t>(first) << 4U | static_cast<std::uint32_t>(values.octets);
  record[0] = static_cast<std::byte>(head & 0xffU);
  record[1] = static_cast<std::byte>(head >> 8U & 0xffU);
  std::byte* to = record + 2;
  for (std::size_t i = 0; i < values.octets; i += 2) {
    const unsigned odd = i + 1 < values.octets ? values.widths[i + 1] : 0;
    if (values.widths[i] > kMostValueBits || odd > kMostValueBits) return 0;
    *to++ = static_cast<std::byte>(values.widths[i] | odd << 4U);
  }
  for (std::size_t i = 0; i < values.octets; ++i) {
    *to = std::byte{values.masks[i]};
    to += values.masks[i] != 0 ? 1 : 0;
  }
  BitWriter bits(to);
  const std::int16_t* value = values.all.data();
  for (std::size_t i = 0; i < values.octets; ++i) {
    for (int left = std::popcount(values.masks[i]); left > 0; --left, ++value) {
      bits.put(2 * (Values::magnitude_of(*value) - 1) + (*value < 0 ? 1U : 0U), values.widths[i]);
    }
  }
  return static_cast<std::size_t>(bits.finish() - record);
}

bool JpegHolder::transforms(std::size_t component, std::size_t row_of_mcu) {
  const std::size_t stride = row_.stride(component) * CoefficientRow::kSide + PixelKernels::kSlack;
  if (samples_.size() < CoefficientRow::kSide * stride) samples_.resize(CoefficientRow::kSide * stride);
  return kernels_->transform(row_.blocks(component, row_of_mcu), row_.extents(component, row_of_mcu),
                             row_.stride(component), held_.frame.component[component].quantiser.data(), samples_.data(),
                             stride);
}

bool JpegHolder::hold_row(std::size_t component, std::size_t row_of_mcu, std::int32_t row) {
  const HeldComponent& here = held_.component[component];
  const auto& quantiser = held_.frame.component[component].quantiser;
  Row whole;
  for (std::size_t k = 0; k < kBlockSize; ++k) {
    whole.weights[k] = (k == 0 ? 1U : 2U) * std::uint32_t{quantiser[kNaturalOrder[k]]};
  }
  const std::int16_t* const blocks = row_.blocks(component, row_of_mcu);
  const std::uint8_t* const extents = row_.extents(component, row_of_mcu);
  const auto across = static_cast<std::size_t>(here.across);
  std::byte* const lengths = place_.data() + here.lengths_at + across * static_cast<std::size_t>(row);
  std::byte* group = place_.data() + here.groups_at + 4 * static_cast<std::size_t>(row * here.groups_across());
  for (std::size_t block = 0; block < across; ++block) {
    if (block % kGroupBlocks == 0) {
      const auto begin = static_cast<std::uint32_t>(end_);
      std::memcpy(group, &begin, sizeof begin);
      group += sizeof begin;
    }
    if (end_ + kMostRecordBytes + kHeldSlack > place_.size()) return false;
    const std::size_t bytes = hold_block(blocks + CoefficientRow::place_of(block), extents[block], whole);
    if (bytes == 0) return false;
    lengths[block] = static_cast<std::byte>(bytes);
    end_ += bytes;
  }
  return !whole.is_doubtful || transforms(component, row_of_mcu);
}

bool JpegHolder::hold(const JpegFrame& frame, int orientation, CoefficientSource& source, const HoldRequest& request) {
  const Box& box = request.region;
  const HoldLimits& limits = request.limits;
  const std::span<std::byte> place = request.place;
  if (box.width() > limits.width || box.height() > limits.height) return false;
  if (expanded_row_bytes(box.width()) * static_cast<std::size_t>(box.height()) > limits.expanded) return false;
  const Box stored = stored_box(box, frame.width, frame.height, orientation);
  held_ = {.frame = frame,
           .mcus = needed_mcus(frame, stored, frame.components),
           .orientation = orientation,
           .left = box.left,
           .top = box.top};
  std::size_t at = sizeof held_;
  std::size_t samples = 0;
  for (std::size_t k = 0; k < frame.components; ++k) {
    HeldComponent& here = held_.component[k];
    here.across = held_.mcus.width() * frame.component[k].h;
    here.down = held_.mcus.height() * frame.component[k].v;
    samples += plane_bytes(here);
    if (samples > limits.expanded) return false;
    here.groups_at = static_cast<std::uint32_t>(at);
    at += 4 * static_cast<std::size_t>(here.groups());
    here.lengths_at = static_cast<std::uint32_t>(at);
    at = (at + static_cast<std::size_t>(here.across) * static_cast<std::size_t>(here.down) + 3) / 4 * 4;
  }
  if (at > place.size()) return false;
  place_ = place.first(std::min<std::size_t>(place.size(), UINT32_MAX));
  end_ = at;
  std::memcpy(place.data(), &held_, sizeof held_);
  for (std::int32_t mcu_row = held_.mcus.top; mcu_row < held_.mcus.bottom; ++mcu_row) {
    row_.reset(frame, frame.components, held_.mcus);
    if (!source.read(mcu_row, row_)) return false;
    for (std::size_t k = 0; k < frame.components; ++k) {
      const std::int32_t rows = frame.component[k].v;
      for (std::int32_t row = 0; row < rows; ++row) {
        if (!hold_row(k, static_cast<std::size_t>(row), (mcu_row - held_.mcus.top) * rows + row)) return false;
      }
    }
  }
  return true;
}

}  // namespace forebay
