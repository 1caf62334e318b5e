#include "crc32c.hpp"

#include <array>
#include <cstring>

namespace forebay {
namespace {

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

// Table k gives what a byte contributes that k bytes follow.
constexpr CrcTables make_crc_tables() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // of Castagnoli, its bits reversed
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8U) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}
constexpr CrcTables kCrcTables = make_crc_tables();

std::uint32_t crc_of_byte(std::uint32_t crc, std::byte byte) noexcept {
  return (crc >> 8U) ^ kCrcTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU];
}

std::uint32_t crc_by_tables(std::span<const std::byte> bytes, std::uint32_t crc) noexcept {
  while (bytes.size() >= 8) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint32_t mixed = i < 4 ? crc >> (8 * i) : 0;
      next ^= kCrcTables[7 - i][(mixed ^ std::to_integer<std::uint32_t>(bytes[i])) & 0xFFU];
    }
    crc = next;
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes) crc = crc_of_byte(crc, byte);
  return crc;
}

#if defined(__x86_64__)
// The instruction's result is there after three cycles, and one can begin in each: three stretches side by side.
constexpr unsigned kStretchBits = 10;
constexpr std::size_t kStretch = std::size_t{1} << kStretchBits;  // bytes

// What each bit of a CRC becomes.
using CrcMatrix = std::array<std::uint32_t, 32>;

constexpr std::uint32_t product(const CrcMatrix& matrix, std::uint32_t crc) {
  std::uint32_t result = 0;
  for (std::size_t bit = 0; bit < matrix.size(); ++bit) result ^= (crc >> bit & 1U) != 0 ? matrix[bit] : 0;
  return result;
}

// What a CRC becomes by a stretch of zeros, as the sum of four bytes' parts. That is linear, so that the CRC of bytes
// that follow each other is the sum of each one's by itself.
constexpr auto kSkips = [] {
  CrcMatrix zeros{};  // one byte of them
  for (std::size_t bit = 0; bit < zeros.size(); ++bit) {
    const std::uint32_t crc = std::uint32_t{1} << bit;
    zeros[bit] = (crc >> 8U) ^ kCrcTables[0][crc & 0xFFU];
  }
  for (unsigned doubling = 0; doubling < kStretchBits; ++doubling) {
    CrcMatrix twice{};
    for (std::size_t bit = 0; bit < zeros.size(); ++bit) twice[bit] = product(zeros, zeros[bit]);
    zeros = twice;
  }
  std::array<std::array<std::uint32_t, 256>, 4> skips{};
  for (std::size_t place = 0; place < skips.size(); ++place) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) skips[place][byte] = product(zeros, byte << (8 * place));
  }
  return skips;
}();

std::uint32_t skip_stretch(std::uint64_t crc) noexcept {
  std::uint32_t result = 0;
  for (std::size_t place = 0; place < kSkips.size(); ++place) result ^= kSkips[place][crc >> (8 * place) & 0xFFU];
  return result;
}

__attribute__((target("sse4.2"))) std::uint64_t crc_of_word(std::uint64_t crc, const std::byte* from) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return __builtin_ia32_crc32di(crc, word);
}

__attribute__((target("sse4.2"))) std::uint32_t crc_by_instruction(std::span<const std::byte> bytes,
                                                                   std::uint32_t crc) noexcept {
  std::uint64_t wide = crc;
  while (bytes.size() >= 3 * kStretch) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (const std::byte *at = bytes.data(), *const end = at + kStretch; at != end; at += sizeof(wide)) {
      wide = crc_of_word(wide, at);
      second = crc_of_word(second, at + kStretch);
      third = crc_of_word(third, at + 2 * kStretch);
    }
    wide = skip_stretch(skip_stretch(wide) ^ second) ^ third;
    bytes = bytes.subspan(3 * kStretch);
  }
  while (bytes.size() >= sizeof(wide)) {
    wide = crc_of_word(wide, bytes.data());
    bytes = bytes.subspan(sizeof(wide));
  }
  crc = static_cast<std::uint32_t>(wide);
  for (const std::byte byte : bytes) crc = __builtin_ia32_crc32qi(crc, std::to_integer<std::uint8_t>(byte));
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return ~crc_by_instruction(bytes, ~before);
#endif
  return crc32c_by_tables(bytes, before);
}

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  return ~crc_by_tables(bytes, ~before);
}

}  // namespace forebay
