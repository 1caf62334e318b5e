#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// Integers in groups of seven bits per byte, lowest group first; every byte but the last has its highest bit set.
namespace forebay {

inline void put_varint(std::vector<std::byte>& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<std::byte>(value | 0x80U));
  out.push_back(static_cast<std::byte>(value));
}

// Removes one from the front. Nothing if the bytes end too early or it is longer than `most_bytes`; ten bytes hold 64
// bits.
inline std::optional<std::uint64_t> take_varint(std::span<const std::byte>& from, unsigned most_bytes = 10) {
  const std::size_t most = from.size() < most_bytes ? from.size() : most_bytes;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const auto next = std::to_integer<std::uint64_t>(from[i]);
    value |= (next & 0x7fU) << (7 * i);
    if (next >= 0x80) continue;
    from = from.subspan(i + 1);
    return value;
  }
  from = from.subspan(most);
  return std::nullopt;
}

}  // namespace forebay
