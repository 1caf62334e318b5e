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
__attribute__((target("sse4.2"))) std::uint32_t crc_by_instruction(std::span<const std::byte> bytes,
                                                                   std::uint32_t crc) noexcept {
  std::uint64_t wide = crc;
  while (bytes.size() >= sizeof(wide)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
    bytes = bytes.subspan(sizeof word);
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
