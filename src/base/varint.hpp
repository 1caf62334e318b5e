#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// Numbers of seven bits a byte, the lowest first, each byte but the last with its highest bit set.
namespace forebay {

inline void put_varint(std::vector<std::byte>& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<std::byte>(value | 0x80U));
  out.push_back(static_cast<std::byte>(value));
}

// Takes one from the front. Nothing where the bytes end before it does, or it is longer; ten bytes hold 64 bits.
inline std::optional<std::uint64_t> take_varint(std::span<const std::byte>& from, unsigned most_bytes = 10) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 7 * most_bytes && !from.empty(); shift += 7) {
    const auto next = std::to_integer<std::uint8_t>(from.front());
    from = from.subspan(1);
    value |= std::uint64_t{next & 0x7fU} << shift;
    if (next < 0x80) return value;
  }
  return std::nullopt;
}

}  // namespace forebay
