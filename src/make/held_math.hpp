#pragma once

#include <cstddef>
#include <cstdint>

#include <forebay/view.hpp>

#include "base/device_function.hpp"
#include "held_jpeg.hpp"
#include "jpeg/jpeg_math.hpp"
#include "orientation.hpp"

// From a place with coefficients to pixels, for host and device. Pixels travel as words, as in canvas_math.hpp.
// All functions are pure; any thread may call.
//
// The record of a block: 16 bits, of which the lowest four are how many of its octets there are and the others its
// first coefficient, with a sign; four bits for each octet, the bits of its values, 0 for one that has none; of each
// octet that has values a mask of those; the values, octet by octet. An octet is eight places of the zigzag. A value v
// of b bits is 2 * (|v| - 1), and one more where v is negative.
namespace forebay {

using HeldBytes = const std::uint8_t*;  // of a place, or of a record

constexpr std::int32_t kOctets = 8;

[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t held_word(HeldBytes at) noexcept {
  return std::uint32_t{at[0]} | std::uint32_t{at[1]} << 8U | std::uint32_t{at[2]} << 16U | std::uint32_t{at[3]} << 24U;
}

[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t bits_set(std::uint32_t byte) noexcept {
  byte = byte - (byte >> 1U & 0x55U);
  byte = (byte & 0x33U) + (byte >> 2U & 0x33U);
  return static_cast<std::int32_t>((byte + (byte >> 4U)) & 0x0fU);
}

// A block's record, which lies at `place` plus what this gives. REQUIRES: the block is one of the component's
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t record_at(HeldBytes place, const HeldComponent& component,
                                                                    std::int32_t row, std::int32_t column) noexcept {
  const std::int32_t group = row * component.groups_across() + column / kGroupBlocks;
  std::uint32_t at = held_word(place + component.groups_at + 4 * static_cast<std::size_t>(group));
  HeldBytes lengths = place + component.lengths_at + static_cast<std::size_t>(row * component.across + column);
  for (std::int32_t i = 0; i < column % kGroupBlocks; ++i) at += *--lengths;
  return at;
}

// Of a record.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t octets_of(HeldBytes record) noexcept { return record[0] & 15; }
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t first_coefficient(HeldBytes record) noexcept {
  const std::int32_t bits = record[0] >> 4 | record[1] << 4;
  return bits < 2048 ? bits : bits - 4096;
}

// The values of one octet.
struct HeldOctet {
  std::uint32_t mask = 0;  // the places that have a value
  std::int32_t width = 0;  // bits of each
  std::int32_t at = 0;     // bits from the record's beginning to the first
};
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr HeldOctet octet_of(HeldBytes record, std::int32_t octet) noexcept {
  const std::int32_t octets = octets_of(record);
  if (octet >= octets) return {};
  HeldBytes masks = record + 2 + (octets + 1) / 2;
  HeldOctet found;
  std::int32_t before = 0;
  for (std::int32_t i = 0; i < octets; ++i) {
    const std::int32_t width = record[2 + i / 2] >> (4 * (i % 2)) & 15;
    if (width == 0) continue;
    const std::uint32_t mask = *masks++;
    if (i < octet) before += width * bits_set(mask);
    if (i == octet) {
      found.mask = mask;
      found.width = width;
    }
  }
  found.at = 8 * static_cast<std::int32_t>(masks - record) + before;
  return found;
}

// The value that begins so many bits behind the record's beginning.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::int32_t held_value(HeldBytes record, std::int32_t bit,
                                                                    std::int32_t width) noexcept {
  const std::uint32_t word = held_word(record + bit / 8) >> (static_cast<std::uint32_t>(bit) % 8U);
  const auto coded = static_cast<std::int32_t>(word & ((1U << static_cast<std::uint32_t>(width)) - 1U));
  const std::int32_t magnitude = coded / 2 + 1;
  return coded % 2 == 0 ? magnitude : -magnitude;
}

// Where the coefficients of an octet lie in natural order, a byte each, the first one in the lowest: kNaturalOrder, in
// which code for a device cannot look anything up.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint64_t octet_places(std::int32_t octet) noexcept {
  switch (octet) {
    case 0: return 0x0a03020910080100U;
    case 1: return 0x05040b1219201811U;
    case 2: return 0x22293028211a130cU;
    case 3: return 0x1c150e07060d141bU;
    case 4: return 0x242b323938312a23U;
    case 5: return 0x332c251e170f161dU;
    case 6: return 0x2e271f262d343b3aU;
    default: return 0x3f3e372f363d3c35U;
  }
}
static_assert([] {
  for (std::int32_t k = 0; k < 64; ++k) {
    if ((octet_places(k / 8) >> (8 * (k % 8)) & 0xffU) != kNaturalOrder[static_cast<std::size_t>(k)]) return false;
  }
  return true;
}());

// Calls write(place, value) for each coefficient of an octet but the block's first one that is not 0; the place is in
// natural order.
template <class Write>
FOREBAY_HOST_DEVICE constexpr void for_each_value(HeldBytes record, std::int32_t octet, const Write& write) noexcept {
  const HeldOctet values = octet_of(record, octet);
  std::int32_t at = values.at;
  std::uint64_t places = octet_places(octet);
  for (std::uint32_t mask = values.mask; mask != 0; mask >>= 1U, places >>= 8U) {
    if ((mask & 1U) == 0) continue;
    write(static_cast<std::size_t>(places & 0xffU), held_value(record, at, values.width));
    at += values.width;
  }
}

// The samples of a component's blocks: rows of 8 * across, those of the components one after the other.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t plane_stride(const HeldComponent& component) noexcept {
  return 8 * static_cast<std::size_t>(component.across);
}
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t plane_bytes(const HeldComponent& component) noexcept {
  return 8 * plane_stride(component) * static_cast<std::size_t>(component.down);
}
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t planes_before(const HeldJpeg& held,
                                                                      std::size_t component) noexcept {
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < component; ++k) bytes += plane_bytes(held.component[k]);
  return bytes;
}

// A region of the sample's part, in the image as displayed.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr Box whole_image_box(const HeldJpeg& held, const Box& region) noexcept {
  return {held.left + region.left, held.top + region.top, held.left + region.right, held.top + region.bottom};
}
// The MCUs with what a region of the sample's part needs. They are here.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr McuRegion held_needs(const HeldJpeg& held, const Box& region) noexcept {
  const Box stored = stored_box(whole_image_box(held, region), held.frame.width, held.frame.height, held.orientation);
  return needed_mcus(held.frame, stored, held.frame.components);
}

// A pixel of the sample's part. REQUIRES: `planes` has the samples of the MCUs that it needs
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::uint32_t held_pixel(const HeldJpeg& held, const std::uint8_t* planes,
                                                                     std::int32_t x, std::int32_t y) noexcept {
  const JpegFrame& frame = held.frame;
  const Box pixel =
      stored_box(whole_image_box(held, {x, y, x + 1, y + 1}), frame.width, frame.height, held.orientation);
  std::int32_t parts[JpegFrame::kMostComponents] = {};
  for (std::size_t k = 0; k < frame.components; ++k) {
    const JpegComponent& part = frame.component[k];
    const std::int32_t left = 8 * held.mcus.left * part.h;
    const std::int32_t top = 8 * held.mcus.top * part.v;
    const std::size_t stride = plane_stride(held.component[k]);
    const auto sample_at = [&](std::int32_t column, std::int32_t row) {
      return std::int32_t{
          planes[static_cast<std::size_t>(row - top) * stride + static_cast<std::size_t>(column - left)]};
    };
    parts[k] = enlarged_sample(enlargement_of(frame, k), part, pixel.left, pixel.top, sample_at);
    planes += plane_bytes(held.component[k]);
  }
  if (frame.colour == JpegColour::grey) return rgb_word(parts[0], parts[0], parts[0]);
  return frame.colour == JpegColour::rgb ? rgb_word(parts[0], parts[1], parts[2])
                                         : ycc_word(parts[0], parts[1], parts[2]);
}

}  // namespace forebay
