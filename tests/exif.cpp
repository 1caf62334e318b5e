#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <forebay/random.hpp>

#include "data/exif.hpp"

namespace {

using Bytes = std::vector<std::byte>;

struct Entry {
  std::uint16_t tag;
  std::uint16_t type;
  std::uint32_t count;
  std::uint16_t value;
};

constexpr Entry orientation(std::uint16_t value) { return {0x0112, 3, 1, value}; }

// Writes an EXIF segment in either byte order.
class Writer {
 public:
  explicit Writer(bool big_endian) : big_endian_(big_endian) {}

  Bytes segment(const std::vector<Entry>& entries, std::uint32_t directory = 8) {
    text(std::string_view("Exif\0\0", 6));
    text(big_endian_ ? "MM" : "II");
    number(42, 2);
    number(directory, 4);
    number(entries.size(), 2);
    for (const auto& entry : entries) {
      number(entry.tag, 2);
      number(entry.type, 2);
      number(entry.count, 4);
      const int size = entry.type == 4 || entry.type == 9 ? 4 : entry.type == 1 || entry.type == 6 ? 1 : 2;
      number(entry.value, size);
      number(0, 4 - size);
    }
    number(0, 4);
    return bytes_;
  }

 private:
  void text(std::string_view characters) {
    for (const char c : characters) bytes_.push_back(static_cast<std::byte>(c));
  }
  void number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) {
      const int shift = 8 * (big_endian_ ? size - 1 - i : i);
      bytes_.push_back(static_cast<std::byte>(value >> shift & 0xffU));
    }
  }

  bool big_endian_;
  Bytes bytes_;
};

}  // namespace

TEST_CASE("every orientation is read in both byte orders") {
  for (const bool big_endian : {false, true}) {
    for (std::uint16_t value = 1; value <= 8; ++value) {
      CHECK(forebay::exif_orientation(Writer(big_endian).segment({{0x010f, 2, 4, 7}, orientation(value)})) == value);
    }
  }
}

TEST_CASE("an orientation is a number of any integer type") {
  for (const bool big_endian : {false, true}) {
    const auto read = [&](unsigned type) {
      return forebay::exif_orientation(Writer(big_endian).segment({{0x0112, static_cast<std::uint16_t>(type), 1, 6}}));
    };
    for (const unsigned type : {1U, 3U, 4U, 6U, 8U, 9U}) CHECK(read(type) == 6);
    for (const unsigned type : {0U, 2U, 5U, 7U, 10U, 11U, 12U, 13U, 99U}) CHECK(read(type) == 1);
  }
}

TEST_CASE("what is absent or out of range is orientation 1") {
  for (const bool big_endian : {false, true}) {
    const auto read = [&](const std::vector<Entry>& entries, std::uint32_t directory = 8) {
      return forebay::exif_orientation(Writer(big_endian).segment(entries, directory));
    };
    CHECK(read({}) == 1);
    CHECK(read({{0x010f, 2, 4, 6}}) == 1);
    CHECK(read({orientation(0)}) == 1);
    CHECK(read({orientation(9)}) == 1);
    CHECK(read({orientation(0x0600)}) == 1);
    CHECK(read({{0x0112, 2, 1, 6}}) == 1);
    CHECK(read({{0x0112, 3, 2, 6}}) == 1);
    CHECK(read({orientation(6)}, 0xffffffff) == 1);
    CHECK(read({orientation(6)}, 0xfffffff0) == 1);
    CHECK(read({orientation(6)}, 200) == 1);
  }
  CHECK(forebay::exif_orientation({}) == 1);
}

TEST_CASE("other APP1 segments are not EXIF") {
  const std::string_view xmp = "http://ns.adobe.com/xap/1.0/";
  CHECK_FALSE(forebay::is_exif(std::as_bytes(std::span(xmp.data(), xmp.size()))));
  CHECK_FALSE(forebay::is_exif({}));
  CHECK(forebay::is_exif(Writer(true).segment({})));
}

TEST_CASE("damaged segments give 1 to 8 and are never read past their end") {
  constexpr std::uint64_t kSeed = 20240607;
  MESSAGE("seed " << kSeed);
  forebay::Random random(kSeed);
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = Writer(round % 2 == 0).segment({{0x010f, 2, 4, 7}, orientation(6), {0x8769, 4, 1, 26}});
    const auto changes = random.below(4);
    for (std::uint64_t i = 0; i < changes; ++i) {
      // Past the header, where damage gets through to the parser.
      bytes[6 + random.below(bytes.size() - 6)] = static_cast<std::byte>(random.bits() & 0xffU);
    }
    // A copy of exactly this size, so that AddressSanitizer sees a read behind it.
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(random.below(bytes.size() + 1)));
    const int value = forebay::exif_orientation(cut);
    CHECK_MESSAGE((value >= 1 && value <= 8), "round " << round);
  }
}

TEST_CASE("a segment cut anywhere before its value is orientation 1") {
  const auto whole = Writer(false).segment({orientation(6)});
  constexpr std::size_t kValueEnd = 6 + 8 + 2 + 10;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(forebay::exif_orientation(cut) == (size >= kValueEnd ? 6 : 1));
  }
}
