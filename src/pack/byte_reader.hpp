#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "base/varint.hpp"

namespace forebay::pack {

// Reads bytes sequentially, with bounds checks. Belongs to one thread.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return rest_; }

  // Throws SampleError if fewer bytes are left.
  std::span<const std::byte> bytes(std::size_t count) {
    if (count > rest_.size()) throw SampleError("damaged: a packed JPEG that ends too early");
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::uint8_t byte() { return std::to_integer<std::uint8_t>(bytes(1)[0]); }
  // Reads a number written by put_varint(); at most 32 bits.
  std::uint32_t number() {
    constexpr unsigned kLongest = 5;
    const std::optional<std::uint64_t> value = take_varint(rest_, kLongest);
    if (!value && rest_.empty()) throw SampleError("damaged: a packed JPEG that ends too early");
    if (!value || *value > UINT32_MAX) throw SampleError("damaged: a packed JPEG with a number of more than 32 bits");
    return static_cast<std::uint32_t>(*value);
  }

 private:
  std::span<const std::byte> rest_;
};

inline void put_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace forebay::pack
