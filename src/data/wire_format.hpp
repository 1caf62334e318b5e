#pragma once

#include <cstdint>

#include "container_bytes.hpp"

namespace forebay::data {

// A field of a message of Protocol Buffers.
struct WireField {
  enum class Type : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  std::uint32_t number = 0;
  Type type = Type::varint;
  std::uint64_t value = 0;  // of a number; the bits of a floating-point one
  Extent extent;            // of bytes: a text, a message or a list of packed numbers

  [[nodiscard]] bool is(std::uint32_t wanted, Type as) const noexcept { return number == wanted && type == as; }
};

// The fields of a message one after the other, without a description of the message. Groups, which nobody has used for
// fifteen years, are skipped. No length is trusted: none reaches out of the message.
class WireReader {
 public:
  WireReader(ContainerBytes& bytes, const Extent& message)
      : bytes_(bytes), position_(message.offset), end_(message.end()) {}

  // False at the end. Throws SampleError with the byte where the message is damaged.
  [[nodiscard]] bool next(WireField& field);
  // Whether there is another number of a packed list, and the number.
  [[nodiscard]] bool next_varint(std::uint64_t& value);
  [[nodiscard]] bool next_fixed32(std::uint32_t& value);

 private:
  [[nodiscard]] std::uint64_t varint();
  [[nodiscard]] std::uint64_t tag();  // number and type of a field
  [[nodiscard]] std::uint64_t take(std::uint64_t length);
  // The value behind a tag. False for one that is skipped.
  [[nodiscard]] bool read_value(std::uint64_t tag, WireField& field);
  void skip_group(std::uint64_t number);

  ContainerBytes& bytes_;
  std::uint64_t position_;
  std::uint64_t end_;
};

}  // namespace forebay::data
