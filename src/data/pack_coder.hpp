#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "base/varint.hpp"
#include "container_bytes.hpp"
#include "record_table.hpp"

// Encodes and decodes the index of a shard of a packed dataset. Integers are varints (base/varint.hpp); signed
// ones have their sign in the lowest bit. A column of integers is their count and the difference of each from its
// predecessor. One function serves both directions by calling coder(value, ...).
namespace forebay::data {

template <typename T>
concept PackNumber = std::integral<T> || std::is_enum_v<T>;

// Zigzag coding of a wrapped difference of two numbers of any type, and its inverse.
[[nodiscard]] constexpr std::uint64_t zigzag(std::uint64_t difference) noexcept {
  return (difference << 1U) ^ (0 - (difference >> 63U));
}
[[nodiscard]] constexpr std::uint64_t unzigzag(std::uint64_t code) noexcept { return (code >> 1U) ^ (0 - (code & 1U)); }

class PackWriter {
 public:
  template <typename... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

 private:
  void varint(std::uint64_t value) { put_varint(bytes_, value); }
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  template <PackNumber T>
  void put(T value) {
    varint(std::is_signed_v<T> ? zigzag(static_cast<std::uint64_t>(value)) : static_cast<std::uint64_t>(value));
  }
  void put(double value) { varint(std::bit_cast<std::uint64_t>(value)); }
  void put(const std::string& text) {
    varint(text.size());
    raw(std::as_bytes(std::span(text)));
  }
  template <PackNumber T>
  requires(sizeof(T) > 1) void put(const std::vector<T>& column) {
    varint(column.size());
    std::uint64_t before = 0;
    for (const T value : column) {
      varint(zigzag(static_cast<std::uint64_t>(value) - before));
      before = static_cast<std::uint64_t>(value);
    }
  }
  // Bytes, and structs, for which differences would save nothing.
  template <typename T>
  requires(std::is_trivially_copyable_v<T> &&
           (!PackNumber<T> || sizeof(T) == 1)) void put(const std::vector<T>& column) {
    varint(column.size());
    raw(std::as_bytes(std::span(column)));
  }
  void put(const std::vector<std::string>& texts) {
    varint(texts.size());
    for (const std::string& text : texts) put(text);
  }
  void put(const StringTable& texts) {
    varint(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      varint(texts[i].size());
      raw(std::as_bytes(std::span(texts[i])));
    }
  }

  std::vector<std::byte> bytes_;
};

// Decodes untrusted bytes: never reads outside them, and uses no more memory than kMostMemory. Throws SampleError("its
// index is damaged at byte N of M").
class PackReader {
 public:
  // In bytes: twice the largest index, because a row or a name of one byte takes several in memory.
  static constexpr std::uint64_t kMostMemory = std::uint64_t{4} << 30U;

  explicit PackReader(std::span<const std::byte> bytes, std::uint64_t most_memory = kMostMemory)
      : all_(bytes.size()), bytes_(bytes), memory_left_(most_memory) {}

  template <typename... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }
  void expect_end() const {
    if (!bytes_.empty()) fail();
  }
  [[nodiscard]] bool is_at_end() const noexcept { return bytes_.empty(); }
  // A reader restricted to the next `length` bytes.
  [[nodiscard]] PackReader part(std::uint64_t length) { return PackReader(take(length), memory_left_); }

 private:
  [[noreturn]] void fail() const {
    throw SampleError("its index is damaged at byte " + std::to_string(all_ - bytes_.size()) + " of " +
                      std::to_string(all_));
  }
  std::uint64_t varint() {
    const std::optional<std::uint64_t> value = take_varint(bytes_);
    if (!value) fail();
    return *value;
  }
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size()) fail();
    const auto taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(count));
    return taken;
  }
  // Reads a number of items, each of which takes at least one byte, and `size` bytes in memory.
  std::size_t count(std::size_t size) {
    const std::uint64_t items = varint();
    if (items > bytes_.size()) fail();
    if (items * size > memory_left_) fail();
    memory_left_ -= items * size;
    return static_cast<std::size_t>(items);
  }
  // Throws if the type does not hold the value.
  template <typename T>
  [[nodiscard]] T number(std::uint64_t value) const {
    using Number = typename std::conditional_t<std::is_enum_v<T>, std::underlying_type<T>, std::type_identity<T>>::type;
    const auto converted = static_cast<Number>(value);
    if (static_cast<std::uint64_t>(converted) != value) fail();
    return static_cast<T>(converted);
  }

  template <PackNumber T>
  void get(T& value) {
    const std::uint64_t code = varint();
    value = number<T>(std::is_signed_v<T> ? unzigzag(code) : code);
  }
  void get(double& value) { value = std::bit_cast<double>(varint()); }
  void get(std::string& text) {
    const auto bytes = take(varint());
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <PackNumber T>
  requires(sizeof(T) > 1) void get(std::vector<T>& column) {
    column.resize(count(sizeof(T)));
    std::uint64_t before = 0;
    for (T& value : column) {
      before += unzigzag(varint());
      value = number<T>(before);
    }
  }
  template <typename T>
  requires(std::is_trivially_copyable_v<T> && (!PackNumber<T> || sizeof(T) == 1)) void get(std::vector<T>& column) {
    const std::size_t items = count(sizeof(T));
    const auto bytes = take(std::uint64_t{items} * sizeof(T));
    column.resize(items);
    if (items > 0) std::memcpy(column.data(), bytes.data(), bytes.size());
  }
  // Appended one at a time, because a damaged count must not decide how much is allocated.
  void get(std::vector<std::string>& texts) {
    for (std::size_t left = count(sizeof(std::string)); left > 0; --left) get(texts.emplace_back());
  }
  void get(StringTable& texts) {
    for (std::size_t left = count(sizeof(std::uint64_t)); left > 0; --left) {
      const auto bytes = take(varint());
      texts.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }

  std::size_t all_;
  std::span<const std::byte> bytes_;
  std::uint64_t memory_left_;
};

}  // namespace forebay::data
