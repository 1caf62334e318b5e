#pragma once

#include <cstdint>

#include "container_bytes.hpp"

namespace forebay::data {

// A field of a Protocol Buffers message.
struct WireField {
  enum class Type : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  std::uint32_t number = 0;
  Type type = Type::varint;
  std::uint64_t value = 0;  // of a number; the bits of a floating-point one
  Extent extent;            // for bytes: a text, a message or a list of packed numbers

  [[nodiscard]] bool is(std::uint32_t wanted, Type as) const noexcept { return number == wanted && type == as; }
};

// Iterates over the fields of a message without its schema. Groups, deprecated for fifteen years, are skipped. No
// length is trusted: none may reach beyond the message.
class WireReader {
 public:
  WireReader(ContainerBytes& bytes, const Extent& message)
      : bytes_(bytes), position_(message.offset), end_(message.end()) {}

  // False at the end. Throws SampleError with the byte where the message is damaged.
  [[nodiscard]] bool next(WireField& field);
  // Reads the next number of a packed list; false at its end.
  [[nodiscard]] bool next_varint(std::uint64_t& value);
  [[nodiscard]] bool next_fixed32(std::uint32_t& value);

 private:
  [[nodiscard]] std::uint64_t varint();
  [[nodiscard]] std::uint64_t tag();  // number and type of a field
  [[nodiscard]] std::uint64_t take(std::uint64_t length);
  // Reads the value after a tag. False if it is skipped.
  [[nodiscard]] bool read_value(std::uint64_t tag, WireField& field);
  void skip_group(std::uint64_t number);

  ContainerBytes& bytes_;
  std::uint64_t position_;
  std::uint64_t end_;
};

}  // namespace forebay::data
