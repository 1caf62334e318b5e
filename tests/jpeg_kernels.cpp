// Each step of Forebay's pixel stage, for every set of vector kernels, compared with the scalar
// ones.
#include "jpeg/coefficients.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg/scan_decoder.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_streams.hpp"
#include "test.hpp"

namespace forebay::test_jpeg_kernels {

using namespace forebay::jpeg;

namespace {

using namespace forebay::testing;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kUntouched = 0xa5;

TEST_CASE("every kind of kernels transforms blocks as the scalar ones do, and refuses the same") {
  constexpr std::size_t kBlocks = 8;
  Random random = testing::random_from(42);
  struct Line {
    alignas(64) std::array<std::int16_t, kBlocks * forebay::jpeg::kBlockSize> coefficients{};
    std::array<std::uint8_t, kBlocks> extents{};
  };
  int refused = 0;
  int wrong = 0;
  constexpr int kRounds = kSanitized ? 2'000 : 20'000;
  for (int round = 0; round < kRounds; ++round) {
    alignas(16) std::array<std::uint16_t, forebay::jpeg::kBlockSize> quantiser{};
    const std::int32_t most = std::array{1, 20, 255, PixelKernels::kMostQuantiser}[random.below(4)];
    for (auto& factor : quantiser) factor = static_cast<std::uint16_t>(1 + below(random, most));
    Line line;
    // Values from those of photographs to those that only a hostile file has.
    const bool hostile = random.below(4) == 0;
    const std::int32_t span = hostile ? 65536 : std::array{2, 30, 700, 3000}[random.below(4)];
    for (std::size_t b = 0; b < kBlocks; ++b) {
      const auto count = random.below(4) == 0 ? 64 : random.below(14);
      for (std::size_t i = 0; i < count; ++i) {
        if (i > 0 && random.below(3) == 0) continue;
        const auto value = (below(random, span) - span / 2) / (hostile && random.below(8) == 0 ? 1 : most);
        line.coefficients[CoefficientRow::place_of(b) + CoefficientRow::kPlaces[i]] = static_cast<std::int16_t>(value);
        if (value != 0) line.extents[b] = static_cast<std::uint8_t>(i);
      }
    }
    const auto transformed = [&](const PixelKernels& kernels, Bytes& out) {
      Line copy = line;
      out.assign(8 * kBlocks * 8 + PixelKernels::kSlack, 0);
      const bool good = kernels.transform(copy.coefficients.data(), copy.extents.data(), kBlocks, quantiser.data(),
                                          out.data(), kBlocks * 8);
      CHECK(std::ranges::all_of(copy.coefficients, [](std::int16_t value) { return value == 0; }));
      return good;
    };
    Bytes expected;
    const bool good = transformed(forebay::jpeg::scalar_pixel_kernels(), expected);
    if (!good) ++refused;
    for (const auto& kernels : forebay::jpeg::supported_pixel_kernels()) {
      Bytes given;
      if (transformed(kernels, given) != good || (good && given != expected)) ++wrong;
    }
  }
  MESSAGE(refused << " lines refused");
  CHECK(wrong == 0);
  CHECK(refused > kRounds / 8);
  CHECK(refused < kRounds / 2);
}

TEST_CASE("every kind of kernels converts all colours as the scalar ones do") {
  constexpr std::size_t kCount = 256;
  Bytes luma(kCount + PixelKernels::kSlack);
  Bytes blue(luma.size());
  Bytes red(luma.size());
  const auto converted = [&](const PixelKernels& kernels, std::size_t count) {
    Bytes out(kCount * 3 + 1, kUntouched);
    const std::array<const std::uint8_t*, 3> parts{luma.data(), blue.data(), red.data()};
    kernels.from_ycc(parts.data(), count, out.data());
    return out;
  };
  int wrong = 0;
  for (std::size_t cb = 0; cb < 256; ++cb) {
    for (std::size_t i = 0; i < kCount; ++i) {
      luma[i] = static_cast<std::uint8_t>(i * 7 + cb);
      blue[i] = static_cast<std::uint8_t>(cb);
      red[i] = static_cast<std::uint8_t>(i);
    }
    const std::size_t count = cb == 0 ? kCount : kCount - cb % 100;
    const Bytes expected = converted(forebay::jpeg::scalar_pixel_kernels(), count);
    for (const auto& kernels : forebay::jpeg::supported_pixel_kernels()) {
      if (converted(kernels, count) != expected) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("every kind of kernels enlarges rows as the scalar ones do") {
  constexpr std::size_t kMost = 150;
  constexpr std::size_t kMargin = 1;  // memory next to the samples
  Random random = testing::random_from(43);
  Bytes near(kMargin + kMost + PixelKernels::kSlack);
  Bytes far(near.size());
  std::vector<std::uint16_t> sums(kMost + PixelKernels::kSlack);
  // Enlarges two rows in three ways: horizontally with a far row and without, and vertically.
  const auto enlarged = [&](const PixelKernels& kernels, std::size_t count, int bias) {
    std::vector<Bytes> rows(3, Bytes(2 * kMost + PixelKernels::kSlack));
    const forebay::jpeg::ChromaRows both{near.data() + kMargin, far.data() + kMargin};
    kernels.double_across(both, count, sums.data(), rows[0].data());
    kernels.double_across({both.near, nullptr}, count, sums.data(), rows[1].data());
    kernels.mix_rows(both, count, bias, rows[2].data());
    for (std::size_t i = 0; i < 3; ++i) rows[i].resize(i < 2 ? 2 * count : count);
    return rows;
  };
  int wrong = 0;
  for (std::size_t count = 1; count <= kMost; ++count) {
    // Extreme values or random ones.
    for (auto* row : {&near, &far}) {
      const bool extreme = random.below(3) == 0;
      for (auto& sample : *row) sample = static_cast<std::uint8_t>(extreme ? 255 * random.below(2) : random.bits());
    }
    const int bias = 1 + below(random, 2);
    const auto expected = enlarged(forebay::jpeg::scalar_pixel_kernels(), count, bias);
    for (const auto& kernels : forebay::jpeg::supported_pixel_kernels()) {
      if (enlarged(kernels, count, bias) != expected) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("only kernels that give libjpeg's pixels are trusted") {
  const auto all = forebay::jpeg::supported_pixel_kernels();
  CHECK(forebay::jpeg::trusted_pixel_kernels() == all.data());
  std::vector<PixelKernels> candidates{all.front(), all.front(), all.front(), all.back()};
  candidates[0].mix_rows = [](const forebay::jpeg::ChromaRows& rows, std::size_t count, int,
                              std::uint8_t* out) noexcept {
    forebay::jpeg::scalar_pixel_kernels().mix_rows(rows, count, 2, out);
  };
  candidates[1].from_ycc = [](const std::uint8_t* const* parts, std::size_t count, std::uint8_t* out) noexcept {
    forebay::jpeg::scalar_pixel_kernels().from_rgb(parts, count, out);
  };
  candidates[2].transform = [](std::int16_t*, const std::uint8_t*, std::size_t, const std::uint16_t*, std::uint8_t*,
                               std::size_t) noexcept { return false; };
  CHECK(forebay::jpeg::trusted_pixel_kernels(candidates) == &candidates[3]);
  CHECK(forebay::jpeg::trusted_pixel_kernels(std::span(candidates).first(3)) == nullptr);
}

TEST_CASE("libjpeg-turbo decodes everything where no trusted kernels are faster, and the reason says so") {
  const auto all = forebay::jpeg::supported_pixel_kernels();
  REQUIRE(all.size() > 1);  // every processor that the tests run on has vectors
  CHECK(forebay::jpeg::choose_pixel_kernels().kernels == all.data());
  CHECK(forebay::jpeg::choose_pixel_kernels().reason.empty());
  const auto plain = forebay::jpeg::choose_pixel_kernels(all.last(1));
  CHECK(plain.kernels == nullptr);
  CHECK(contains(plain.reason, "no vector code"));
  PixelKernels wrong = all.front();
  wrong.from_ycc = wrong.from_rgb;
  const std::vector<PixelKernels> untrusted{wrong, all.back()};
  const auto slow = forebay::jpeg::choose_pixel_kernels(untrusted);
  CHECK(slow.kernels == nullptr);
  CHECK(contains(slow.reason, "other pixels with vector code"));
  const auto none = forebay::jpeg::choose_pixel_kernels(std::span(&wrong, 1));
  CHECK(none.kernels == nullptr);
  CHECK(contains(none.reason, "gives other pixels"));
}

// Two rows of MCUs decoded at once give the coefficients that they give one after the other.

namespace lanes {

using Bytes = std::vector<std::byte>;

// The bits of an MCU: six blocks, in which nearly all coefficients have the longest code.
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

TEST_CASE("a row whose first wanted MCU reaches to the end of the bytes at hand is decoded as any other") {
  // Twelve MCUs end four bytes before the end of a window that starts with the first of them.
  static_assert(12 * kMcuBits / 8 == (16U << 10U) - 4);
  JpegFrame frame{.width = 17 * 8, .height = 18 * 16, .colour = forebay::jpeg::JpegColour::ycbcr, .components = 3};
  for (auto& component : frame.component) component.v = 2;
  frame.complete();
  REQUIRE(forebay::jpeg::ScanPoints::step_of(frame) == 16);
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
    scan.points = forebay::jpeg::ScanPoints(frame, points);
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

}  // namespace lanes

}  // namespace
}  // namespace forebay::test_jpeg_kernels
