// CRC-32C, the checksum with Castagnoli's polynomial in TFRecord files, packs and packed JPEG
// files. Uses the processor's instruction (SSE 4.2, ARMv8 CRC) if there is one, on three 1 KiB
// stretches interleaved, because the instruction has a latency of three cycles; otherwise tables,
// eight bytes at a time. Tests compare the two.

#include "crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace forebay {
namespace {

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

// Table k gives the contribution of a byte that is followed by k more.
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

// "Slicing by eight" (Kounavis and Berry, 2005).
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
#define FOREBAY_CRC_INSTRUCTION __attribute__((target("sse4.2")))
using CrcRegister = std::uint64_t;

bool has_crc_instruction() noexcept { return __builtin_cpu_supports("sse4.2") != 0; }

FOREBAY_CRC_INSTRUCTION std::uint32_t crc_by_byte_instruction(std::uint32_t crc, std::uint8_t byte) noexcept {
  return __builtin_ia32_crc32qi(crc, byte);
}
FOREBAY_CRC_INSTRUCTION CrcRegister crc_by_word_instruction(CrcRegister crc, std::uint64_t word) noexcept {
  return __builtin_ia32_crc32di(crc, word);
}
#elif defined(__aarch64__) && defined(__linux__)
#define FOREBAY_CRC_INSTRUCTION __attribute__((target("+crc")))
using CrcRegister = std::uint32_t;

// The instruction is optional in ARMv8.0.
bool has_crc_instruction() noexcept { return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }

FOREBAY_CRC_INSTRUCTION std::uint32_t crc_by_byte_instruction(std::uint32_t crc, std::uint8_t byte) noexcept {
  return __crc32cb(crc, byte);
}
FOREBAY_CRC_INSTRUCTION CrcRegister crc_by_word_instruction(CrcRegister crc, std::uint64_t word) noexcept {
  return __crc32cd(crc, word);
}
#endif

#ifdef FOREBAY_CRC_INSTRUCTION
// The instruction has a latency of three cycles and a throughput of one per cycle: three stretches
// keep it busy.
constexpr unsigned kStretchBits = 10;
constexpr std::size_t kStretch = std::size_t{1} << kStretchBits;  // bytes

// The image of each bit of a CRC under a linear map.
using CrcMatrix = std::array<std::uint32_t, 32>;

constexpr std::uint32_t product(const CrcMatrix& matrix, std::uint32_t crc) {
  std::uint32_t result = 0;
  for (std::size_t bit = 0; bit < matrix.size(); ++bit) result ^= (crc >> bit & 1U) != 0 ? matrix[bit] : 0;
  return result;
}

// The effect on a CRC of a stretch of zeros, as the sum of the parts of its four bytes. CRCs are
// linear, so the CRC of concatenated data is the sum of each part's own contribution.
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

std::uint32_t skip_stretch(CrcRegister crc) noexcept {
  std::uint32_t result = 0;
  for (std::size_t place = 0; place < kSkips.size(); ++place) result ^= kSkips[place][crc >> (8 * place) & 0xFFU];
  return result;
}

FOREBAY_CRC_INSTRUCTION CrcRegister crc_of_word(CrcRegister crc, const std::byte* from) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return crc_by_word_instruction(crc, word);
}

// The CRC of joined stretches is the sum of their CRCs, each advanced by as many zero bytes as
// follow it.
FOREBAY_CRC_INSTRUCTION std::uint32_t crc_by_instruction(std::span<const std::byte> bytes, std::uint32_t crc) noexcept {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  CrcRegister wide = crc;
  while (bytes.size() >= 3 * kStretch) {
    CrcRegister second = 0;
    CrcRegister third = 0;
    for (const std::byte *at = bytes.data(), *const end = at + kStretch; at != end; at += kWord) {
      wide = crc_of_word(wide, at);
      second = crc_of_word(second, at + kStretch);
      third = crc_of_word(third, at + 2 * kStretch);
    }
    wide = skip_stretch(skip_stretch(wide) ^ second) ^ third;
    bytes = bytes.subspan(3 * kStretch);
  }
  while (bytes.size() >= kWord) {
    wide = crc_of_word(wide, bytes.data());
    bytes = bytes.subspan(kWord);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (const std::byte byte : bytes) crc = crc_by_byte_instruction(crc, std::to_integer<std::uint8_t>(byte));
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
#ifdef FOREBAY_CRC_INSTRUCTION
  if (has_crc_instruction()) return ~crc_by_instruction(bytes, ~before);
#endif
  return crc32c_by_tables(bytes, before);
}

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  return ~crc_by_tables(bytes, ~before);
}

}  // namespace forebay
