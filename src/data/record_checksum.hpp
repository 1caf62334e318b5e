#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "base/crc32c.hpp"
#include "base/limits.hpp"

// The checksum of a record in a TFRecord file: a masked CRC-32C that follows the bytes it covers, which are more than
// the sample's own.
namespace forebay::data {

inline constexpr std::size_t kRecordSum = 4;  // bytes of a checksum

// Memory for the bytes around a sample's own. Throws Error, not SampleError, if the system has none.
[[nodiscard]] inline std::vector<std::byte> memory_around_record(std::size_t bytes) {
  try {
    return std::vector<std::byte>(bytes);
  } catch (const std::bad_alloc&) {
    throw out_of_memory("for the " + std::to_string(bytes) + " bytes around a record");
  }
}

// The error for `bytes` bytes of a file, from byte `begin` on, that fail their checksum.
[[nodiscard]] inline SampleError damaged_record(std::uint64_t begin, std::uint64_t bytes) {
  return SampleError("byte " + std::to_string(begin) + ": the " + std::to_string(bytes) +
                     " bytes of the record are damaged: they do not match the CRC-32C that follows them");
}

// Throws SampleError if the concatenation of the three fails the checksum at the end of `tail`. `offset` is that of
// `bytes` in the file, for the message. REQUIRES: tail.size() >= kRecordSum.
inline void require_record_sum(std::span<const std::byte> head, std::span<const std::byte> bytes,
                               std::span<const std::byte> tail, std::uint64_t offset) {
  const std::size_t after = tail.size() - kRecordSum;
  const std::uint32_t sum = masked_crc32c(crc32c(tail.first(after), crc32c(bytes, crc32c(head))));
  std::uint32_t expected = 0;
  std::memcpy(&expected, tail.last(kRecordSum).data(), kRecordSum);
  if (sum == expected) return;
  throw damaged_record(offset - head.size(), head.size() + bytes.size() + after);
}

}  // namespace forebay::data
