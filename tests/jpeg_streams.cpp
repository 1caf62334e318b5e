#include "jpeg_streams.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg_parts.hpp"
#include "test.hpp"

// JPEG files that no encoder writes, decoded by Forebay and by libjpeg-turbo: the same pixels and
// the same errors.
namespace forebay::test_jpeg_streams {
namespace {

using namespace forebay::testing;
using Bytes = std::vector<std::byte>;

const StreamCode kDc({{0, 2}, {1, 2}, {3, 3}, {11, 4}});
const StreamCode kAc({{0x00, 2}, {0x01, 3}, {0xf0, 3}, {0xe1, 4}, {0x50, 5}, {0xf1, 6}, {0x0f, 12}, {0xff, 16}});

std::array<std::uint16_t, 64> flat(int value) {
  std::array<std::uint16_t, 64> all{};
  all.fill(static_cast<std::uint16_t>(value));
  return all;
}

struct Grey {
  int width = 8;
  int height = 8;
  int quantiser = 3;
  bool wide = false;
  int restarts = -1;  // no such segment
};

StreamFile begin_grey(const Grey& grey) {
  StreamFile file;
  file.quantiser(0, grey.wide, flat(grey.quantiser));
  file.frame(0, grey.width, grey.height, {{1, 1}});
  file.code(false, 0, kDc);
  file.code(true, 0, kAc);
  if (grey.restarts >= 0) file.restarts(grey.restarts);
  file.scan({0});
  return file;
}

// The symbols of a block; each is followed by as many bits as its size says.
using Symbols = std::vector<std::uint8_t>;

void put_block(BitWriter& writer, const Symbols& symbols) {
  kDc.put(writer, 1);
  writer.put(1, 1);
  for (const std::uint8_t symbol : symbols) {
    kAc.put(writer, symbol);
    writer.put(0xffff, symbol & 15U);
  }
}

Bytes grey_of(const std::vector<Symbols>& blocks, Grey grey = {}) {
  grey.width = 8 * static_cast<int>(blocks.size());
  StreamFile file = begin_grey(grey);
  BitWriter writer(file.bytes());
  for (const Symbols& block : blocks) put_block(writer, block);
  writer.finish();
  file.raw({0xff, 0xd9});
  return file.bytes();
}

Symbols repeated(std::size_t count, std::uint8_t symbol, const Symbols& then = {}) {
  Symbols all(count, symbol);
  all.insert(all.end(), then.begin(), then.end());
  return all;
}

// Four MCUs, each followed by the bytes in `markers`, if any.
Bytes with_markers(int interval, const std::vector<std::vector<int>>& markers) {
  StreamFile file = begin_grey({.width = 32, .restarts = interval});
  for (std::size_t i = 0; i < 4; ++i) {
    BitWriter writer(file.bytes());
    put_block(writer, {0x01, 0xe1, 0x00});
    writer.finish();
    if (i < markers.size()) {
      for (const int byte : markers[i]) file.raw({byte});
    }
  }
  file.raw({0xff, 0xd9});
  return file.bytes();
}

}  // namespace

TEST_CASE("files of random codes and symbols are decoded as by libjpeg, most of them without it") {
  constexpr int kFiles = kSanitized ? 1'000 : 8'000;
  Twins twins(51);
  for (int i = 0; i < kFiles; ++i) {
    CAPTURE(i);
    const Bytes file = forebay::testing::any_stream(twins.random());
    twins.compare_any(file, {.max_pixels = 100'000, .grey = i % 8 == 0});
  }
  MESSAGE(twins.own << " decoded by Forebay, " << twins.library << " by libjpeg, " << twins.refused << " refused");
  CHECK(twins.own > kFiles / 3);
  CHECK(twins.library > kFiles / 20);
}

TEST_CASE("blocks end behind their last coefficient, at an end of block, and nowhere else") {
  Twins twins(52);
  const auto is_own = [&](const Symbols& block) {
    // Alone, and between good blocks.
    const bool alone = twins.compare(grey_of({block}), {0, 0, 8, 8});
    CHECK(twins.compare(grey_of({{0x01, 0x00}, block, {0x00}}), {0, 0, 24, 8}) == alone);
    return alone;
  };
  CHECK(is_own({0x00}));
  CHECK(is_own({0x50}));                    // as libjpeg accepts it
  CHECK(is_own({0xf0, 0xf0, 0xf0, 0xe1}));  // the last coefficient, without an end of block
  CHECK(is_own(repeated(63, 0x01)));        // all coefficients
  CHECK(is_own(repeated(62, 0x01, {0x00})));
  CHECK(is_own(repeated(62, 0x01, {0x50})));
  CHECK(is_own(repeated(47, 0x01, {0xf0, 0x00})));  // sixteen zeros up to the last coefficient
  CHECK_FALSE(is_own({0xf0, 0xf0, 0xf0, 0xf1}));    // after the last coefficient
  CHECK_FALSE(is_own({0xf0, 0xf0, 0xf0, 0xf0}));
  CHECK_FALSE(is_own(repeated(48, 0x01, {0xf0})));
  CHECK_FALSE(is_own(repeated(62, 0x01, {0xe1})));
  CHECK_FALSE(is_own(repeated(50, 0x01, {0xf0})));
  CHECK_FALSE(is_own({0xf0, 0xf0, 0xf0, 0xff}));
}

TEST_CASE("quantisers of 16 bits are decoded up to what 16-bit arithmetic holds") {
  Twins twins(53);
  for (const bool wide : {false, true}) {
    for (const int value : {1, 255, 256, 4'000, 16'383, 16'384, 65'535}) {
      if (!wide && value > 255) continue;
      CAPTURE(value);
      // Blocks with only a small DC coefficient, and one that also has an AC coefficient.
      const Bytes file = grey_of({{0x00}, {0x00}}, {.quantiser = value, .wide = wide});
      CHECK(twins.compare(file, {0, 0, 16, 8}) == (value < 4'000));
      twins.compare(grey_of({{0x01, 0x0f, 0x00}}, {.quantiser = value, .wide = wide}), {0, 0, 8, 8});
    }
  }
  CHECK(twins.refused == 0);
}

TEST_CASE("restart markers in their places are passed; all others are libjpeg's to judge") {
  Twins twins(54);
  const Box whole{0, 0, 32, 8};
  const auto is_own = [&](int interval, const std::vector<std::vector<int>>& markers) {
    twins.compare_any(with_markers(interval, markers));
    return twins.compare(with_markers(interval, markers), whole);
  };
  CHECK(is_own(1, {{0xff, 0xd0}, {0xff, 0xd1}, {0xff, 0xd2}}));
  CHECK_FALSE(is_own(1, {{0xff, 0xd0}, {0xff, 0xd2}, {0xff, 0xd2}}));
  CHECK_FALSE(is_own(1, {{0xff, 0xd1}, {0xff, 0xd2}, {0xff, 0xd3}}));
  CHECK_FALSE(is_own(1, {{0xff, 0xd0}, {}, {0xff, 0xd2}}));
  CHECK_FALSE(is_own(1, {{0xff, 0xff, 0xd0}, {0xff, 0xd1}, {0xff, 0xd2}}));
  CHECK_FALSE(is_own(1, {{0x12, 0x34, 0xff, 0xd0}, {0xff, 0xd1}, {0xff, 0xd2}}));
  CHECK_FALSE(is_own(1, {{0xff, 0xd0}, {0xff, 0xd1}, {0xff, 0xd9}}));
  CHECK_FALSE(is_own(0, {{0xff, 0xd0}, {0xff, 0xd1}, {0xff, 0xd2}}));
  CHECK_FALSE(is_own(-1, {{0xff, 0xd0}}));
  CHECK_FALSE(is_own(3, {{}, {}, {}}));
  twins.compare_any(with_markers(2, {{}, {0xff, 0xd0}}));
}

TEST_CASE("a scan in another order of components than the frame is libjpeg's") {
  Twins twins(55);
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 1, 0}}) {
    StreamFile file;
    file.quantiser(0, false, flat(2));
    file.frame(0, 16, 8, {{1, 1}, {1, 1}, {1, 1}});
    for (const int number : {0, 1}) {
      file.code(false, number, kDc);
      file.code(true, number, kAc);
    }
    file.scan(order);
    BitWriter writer(file.bytes());
    for (int block = 0; block < 6; ++block) put_block(writer, {0x01, 0x00});
    writer.finish();
    file.raw({0xff, 0xd9});
    CHECK(twins.compare(file.bytes(), {0, 0, 16, 8}) == (order == std::vector{0, 1, 2}));
  }
}

TEST_CASE(
    "a file cut anywhere, or with any byte of its scan doubled or left out, is decoded or refused as by libjpeg") {
  Twins twins(56);
  StreamRecipe recipe{.width = 40, .height = 33};
  recipe.restart_interval = 2;
  Random random(8);
  const Bytes good = forebay::testing::random_stream(recipe, random);
  constexpr std::size_t kStep = kSanitized ? 5 : 1;
  for (std::size_t at = 2; at < good.size(); at += kStep) {
    CAPTURE(at);
    const auto place = static_cast<std::ptrdiff_t>(at);
    Bytes cut(good.begin(), good.begin() + place);
    twins.compare_any(cut);
    cut.insert(cut.end(), {std::byte{0xff}, std::byte{0xd9}});
    twins.compare_any(cut);
    Bytes doubled = good;
    doubled.insert(doubled.begin() + place, good[at]);
    twins.compare_any(doubled);
    Bytes shorter = good;
    shorter.erase(shorter.begin() + place);
    twins.compare_any(shorter);
  }
  CHECK(twins.refused > 100 / static_cast<int>(kStep));
}

TEST_CASE("any byte of a header may say anything") {
  Twins twins(57);
  Random random(9);
  StreamRecipe recipe{.width = 20, .height = 20, .wide_quantiser = true};
  recipe.restart_interval = 3;
  const Bytes good = forebay::testing::random_stream(recipe, random);
  std::size_t header = 2;
  while (good[header + 1] != std::byte{0xda}) {
    header += 2 + std::to_integer<std::size_t>(good[header + 2]) * 256 + std::to_integer<std::size_t>(good[header + 3]);
  }
  constexpr std::size_t kStep = kSanitized ? 7 : 1;
  for (std::size_t at = 2; at < header + 14; at += kStep) {
    CAPTURE(at);
    for (const int value : {0, 1, 2, 0x0f, 0x10, 0x11, 0x22, 0x3f, 0x41, 0x7f, 0x80, 0xf0, 0xff}) {
      CAPTURE(value);
      Bytes file = good;
      file[at] = static_cast<std::byte>(value);
      twins.compare_any(file, {.max_pixels = 100'000});
    }
  }
  MESSAGE(twins.own << " decoded by Forebay, " << twins.library << " by libjpeg, " << twins.refused << " refused");
  CHECK(twins.own > 100 / static_cast<int>(kStep));
  CHECK(twins.refused > 100 / static_cast<int>(kStep));
}

TEST_CASE("bytes of 0xff in a scan count with what is stuffed behind them, and not without") {
  Twins twins(58);
  StreamFile file = begin_grey({.width = 64});
  BitWriter writer(file.bytes());
  for (int block = 0; block < 8; ++block) put_block(writer, repeated(20, 0x0f, {0x00}));
  writer.finish();
  file.raw({0xff, 0xd9});
  const Bytes good = file.bytes();
  std::size_t stuffed = 0;
  twins.compare(good, {0, 0, 64, 8});
  for (std::size_t at = good.size() - 2; at-- > 200;) {
    if (good[at] != std::byte{0xff} || good[at + 1] != std::byte{0}) continue;
    ++stuffed;
    Bytes bare = good;
    bare.erase(bare.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    twins.compare_any(bare);
    for (const int value : {0x01, 0xff, 0xd0, 0xd9, 0xda}) {
      Bytes other = good;
      other[at + 1] = static_cast<std::byte>(value);
      twins.compare_any(other);
    }
  }
  CHECK(stuffed > 20);
}

}  // namespace forebay::test_jpeg_streams
