#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

namespace forebay::pack {

// Reads bytes in their order, and none that are not there.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return rest_; }

  // Throws SampleError when fewer are left.
  std::span<const std::byte> bytes(std::size_t count) {
    if (count > rest_.size()) throw SampleError("damaged: a packed JPEG that ends too early");
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::uint8_t byte() { return std::to_integer<std::uint8_t>(bytes(1)[0]); }
  // As put_number() wrote it; at most 32 bits.
  std::uint32_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const std::uint8_t next = byte();
      value |= std::uint64_t{next & 0x7fU} << shift;
      if (next < 0x80) {
        if (value > UINT32_MAX) break;
        return static_cast<std::uint32_t>(value);
      }
    }
    throw SampleError("damaged: a packed JPEG with a number of more than 32 bits");
  }

 private:
  std::span<const std::byte> rest_;
};

// Seven bits a byte, the lowest first.
inline void put_number(std::vector<std::byte>& out, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<std::byte>(value | 0x80U));
  out.push_back(static_cast<std::byte>(value));
}

inline void put_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace forebay::pack
