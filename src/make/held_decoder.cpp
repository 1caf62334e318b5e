#include "held_decoder.hpp"

#include <array>
#include <cstring>

#include <forebay/error.hpp>

#include "held_math.hpp"
#include "placed_rows.hpp"

namespace forebay {
namespace {

// The samples of one block, by the definition.
void transform_plainly(const std::uint8_t* record, const std::uint16_t* quantiser, std::uint8_t* out,
                       std::size_t stride) noexcept {
  std::array<std::int32_t, kBlockSize> block{};
  block[0] = first_coefficient(record) * quantiser[0];
  for (std::int32_t octet = 0; octet < kOctets; ++octet) {
    for_each_value(record, octet,
                   [&](std::size_t place, std::int32_t value) { block[place] = value * quantiser[place]; });
  }
  for (std::size_t x = 0; x < 8; ++x) inverse_dct_line(block.data() + x, 8, kColumnShift);
  for (std::size_t y = 0; y < 8; ++y) inverse_dct_line(block.data() + 8 * y, 1, kRowShift);
  for (std::size_t i = 0; i < kBlockSize; ++i) out[i / 8 * stride + i % 8] = jpeg_sample(block[i]);
}

}  // namespace

void HeldCoefficients::open(std::span<const std::byte> place) noexcept {
  std::memcpy(&held_, place.data(), sizeof held_);
  place_ = reinterpret_cast<const std::uint8_t*>(place.data());
}

bool HeldCoefficients::read(std::int32_t mcu_row, CoefficientRow& row) {
  for (std::size_t k = 0; k < row.components(); ++k) {
    const JpegComponent& part = held_.frame.component[k];
    const HeldComponent& here = held_.component[k];
    const std::int32_t first = (row.left() - held_.mcus.left) * part.h;
    for (std::int32_t r = 0; r < part.v; ++r) {
      const std::int32_t block_row = (mcu_row - held_.mcus.top) * part.v + r;
      const std::uint8_t* record = place_ + record_at(place_, here, block_row, first);
      const std::uint8_t* const lengths = place_ + here.lengths_at + static_cast<std::size_t>(block_row * here.across);
      std::int16_t* const blocks = row.blocks(k, static_cast<std::size_t>(r));
      std::uint8_t* const extents = row.extents(k, static_cast<std::size_t>(r));
      for (std::size_t i = 0; i < row.width(k); ++i) {
        extents[i] = records_->read(record, blocks + CoefficientRow::place_of(i));
        record += lengths[static_cast<std::size_t>(first) + i];
      }
    }
  }
  return true;
}

void HeldDecoder::decode(std::span<const std::byte> place, const Box& region, Image& out) {
  coefficients_.open(place);
  const HeldJpeg& held = coefficients_.image();
  const Box displayed = whole_image_box(held, region);
  const Box stored = stored_box(displayed, held.frame.width, held.frame.height, held.orientation);
  out.resize(region.width(), region.height());
  out.area = region;
  PlacedRows rows(stored, held.orientation, strip_, out);
  if (!stage_.decode(held.frame, stored, PixelStage::Colours::all, coefficients_, rows)) {
    throw Error("the coefficients of a sample in a batch are not those that were put there: something wrote over them");
  }
  rows.finish();
}

void expand_plainly(std::span<const std::byte> place, const Box& region, std::vector<std::uint8_t>& out) {
  HeldJpeg held;
  std::memcpy(&held, place.data(), sizeof held);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(place.data());
  const McuRegion mcus = held_needs(held, region);
  std::vector<std::uint8_t> planes(planes_before(held, held.frame.components));
  for (std::size_t k = 0; k < held.frame.components; ++k) {
    const JpegComponent& part = held.frame.component[k];
    const HeldComponent& here = held.component[k];
    std::uint8_t* const plane = planes.data() + planes_before(held, k);
    for (std::int32_t row = (mcus.top - held.mcus.top) * part.v; row < (mcus.bottom - held.mcus.top) * part.v; ++row) {
      for (std::int32_t x = (mcus.left - held.mcus.left) * part.h; x < (mcus.right - held.mcus.left) * part.h; ++x) {
        std::uint8_t* const to =
            plane + 8 * (static_cast<std::size_t>(row) * plane_stride(here) + static_cast<std::size_t>(x));
        transform_plainly(bytes + record_at(bytes, here, row, x), part.quantiser.data(), to, plane_stride(here));
      }
    }
  }
  const std::size_t row_bytes = expanded_row_bytes(region.width());
  out.resize(row_bytes * static_cast<std::size_t>(region.height()) + 16);
  for (std::int32_t y = region.top; y < region.bottom; ++y) {
    std::uint8_t* to = out.data() + row_bytes * static_cast<std::size_t>(y - region.top);
    for (std::int32_t x = region.left; x < region.right; ++x, to += 3) {
      const std::uint32_t pixel = held_pixel(held, planes.data(), x, y);
      for (std::size_t i = 0; i < 3; ++i) to[i] = static_cast<std::uint8_t>(pixel >> (8 * i));
    }
  }
}

}  // namespace forebay
