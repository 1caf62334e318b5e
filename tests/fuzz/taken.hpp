#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace forebay::fuzz {

// Takes decisions, numbers and texts from a fuzzer's input, one after the other. Once the input has
// ended, they are zero or empty.
class Taken {
 public:
  explicit Taken(std::string_view input) noexcept : rest_(input) {}

  [[nodiscard]] bool is_at_end() const noexcept { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

  template <typename Number>
  requires std::is_arithmetic_v<Number> Number number()
  noexcept {
    Number value{};
    const std::size_t bytes = std::min(sizeof value, rest_.size());
    std::memcpy(&value, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
    return value;
  }
  std::uint8_t byte() noexcept { return number<std::uint8_t>(); }
  bool flag() noexcept { return byte() % 2 != 0; }
  // REQUIRES: 1 <= bound <= 256
  std::size_t below(std::size_t bound) noexcept { return byte() % bound; }
  // At most 255 bytes. The first byte taken says how many.
  std::string_view text() noexcept {
    const std::size_t wanted = byte();
    const std::size_t bytes = std::min(wanted, rest_.size());
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

 private:
  std::string_view rest_;
};

}  // namespace forebay::fuzz
