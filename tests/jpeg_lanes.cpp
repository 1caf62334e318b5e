#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/random.hpp>

#include "jpeg/scan_decoder.hpp"
#include "jpeg_streams.hpp"

// Two rows of MCUs decoded at once give the coefficients that they give one after the other.
namespace {

using forebay::CoefficientRow;
using forebay::JpegFrame;
using forebay::kBlockSize;
using forebay::McuRegion;
using forebay::Random;
using forebay::ScanDecoder;
using forebay::testing::BitWriter;
using forebay::testing::StreamCode;
using Bytes = std::vector<std::byte>;

// Bits of an MCU: six blocks, nearly all coefficients as long as they can be.
constexpr std::uint32_t kLongValues = 58;
constexpr std::uint32_t kShortValues = 63 - kLongValues;
constexpr std::uint32_t kBlocks = 6;
constexpr std::uint32_t kMcuBits = kBlocks * (7 + kLongValues * (16 + 15) + kShortValues * (2 + 1));

std::vector<std::int16_t> coefficients_of(CoefficientRow& row, const JpegFrame& frame) {
  std::vector<std::int16_t> all;
  for (std::size_t k = 0; k < row.components(); ++k) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(frame.component[k].v); ++r) {
      all.insert(all.end(), row.blocks(k, r), row.blocks(k, r) + row.stride(k) * kBlockSize);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a row whose first wanted MCU reaches to the end of the bytes at hand is decoded as any other") {
  // So twelve MCUs end four bytes before the end of a window that begins with the first of them.
  static_assert(12 * kMcuBits / 8 == (16U << 10U) - 4);
  JpegFrame frame{.width = 17 * 8, .height = 18 * 16, .colour = forebay::JpegColour::ycbcr, .components = 3};
  for (auto& component : frame.component) component.v = 2;
  frame.complete();
  REQUIRE(forebay::ScanPoints::step_of(frame) == 16);
  const StreamCode dc({{0, 7}});
  const StreamCode ac({{0x01, 2}, {0x0f, 16}});
  Bytes bytes;
  BitWriter writer(bytes);
  Random random(71);
  for (std::int32_t block = 0; block < frame.mcus_across * frame.mcus_down * static_cast<int>(kBlocks); ++block) {
    dc.put(writer, 0);
    for (std::uint32_t k = 0; k < kLongValues + kShortValues; ++k) {
      const std::uint8_t symbol = k < kLongValues ? 0x0f : 0x01;
      ac.put(writer, symbol);
      writer.put(static_cast<std::uint32_t>(random.bits() & 0x7fffU), symbol & 15U);
    }
  }
  writer.finish();
  bytes.insert(bytes.end(), {std::byte{0xff}, std::byte{0xd9}});

  ScanDecoder::Scan scan;
  scan.bytes = bytes;
  scan.wanted = {0, 0, frame.mcus_across, frame.mcus_down};
  for (auto& codes : scan.codes) codes = {dc.code, ac.code};
  std::vector<std::byte> points;
  ScanDecoder locating;
  REQUIRE(locating.open(frame, scan));
  REQUIRE(locating.locate(points));
  for (std::int32_t left = 0; left < 14; ++left) {
    CAPTURE(left);
    scan.wanted = {left, 0, left + 3 > 15 ? 15 : left + 3, frame.mcus_down};
    scan.points = {};
    ScanDecoder one;
    REQUIRE(one.open(frame, scan));
    scan.points = forebay::ScanPoints(frame, points);
    ScanDecoder two;
    REQUIRE(two.open(frame, scan));
    CoefficientRow expected;
    CoefficientRow found;
    for (std::int32_t y = 0; y < frame.mcus_down; ++y) {
      expected.reset(frame, 3, scan.wanted);
      found.reset(frame, 3, scan.wanted);
      REQUIRE(one.read(y, expected));
      REQUIRE(two.read(y, found));
      REQUIRE(coefficients_of(found, frame) == coefficients_of(expected, frame));
    }
  }
}
