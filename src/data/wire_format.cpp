#include "wire_format.hpp"

#include <algorithm>

namespace forebay::data {
namespace {

enum WireTag : std::uint8_t { group_begins = 3, group_ends = 4 };

}  // namespace

// Seven bits per byte, the lowest first; the highest bit says that another byte follows
// (protobuf.dev, "Encoding").
std::uint64_t WireReader::varint() {
  constexpr std::size_t kLongest = 10;
  const auto bytes =
      bytes_.at(position_, static_cast<std::size_t>(std::min<std::uint64_t>(end_ - position_, kLongest)));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= (std::to_integer<std::uint64_t>(bytes[i]) & 0x7FU) << (7 * i);
    if ((bytes[i] & std::byte{0x80}) == std::byte{0}) {
      position_ += i + 1;
      return value;
    }
  }
  throw at_byte(position_, bytes.size() == kLongest ? "a number of more than 10 bytes in a protobuf message"
                                                    : "a protobuf message ends within a number");
}

std::uint64_t WireReader::tag() {
  constexpr std::uint64_t kLargestTag = 0xFFFFFFFF;
  const std::uint64_t begin = position_;
  const std::uint64_t tag = varint();
  if (tag > kLargestTag) throw at_byte(begin, "a field of a protobuf message has a number of more than 29 bits");
  return tag;
}

// Compares by subtraction, because a length may be near 2^64.
std::uint64_t WireReader::take(std::uint64_t length) {
  if (length > end_ - position_) {
    throw at_byte(position_, "a length of " + std::to_string(length) + " reaches past the end of its protobuf message");
  }
  position_ += length;
  return position_ - length;
}

// Groups, which Protocol Buffers has deprecated, are skipped.
bool WireReader::next(WireField& field) {
  while (position_ < end_) {
    if (read_value(tag(), field)) return true;
  }
  return false;
}

// The lowest three bits of a tag are the type, the others the number of the field.
bool WireReader::read_value(std::uint64_t tag, WireField& field) {
  if (tag >> 3U == 0) throw at_byte(position_, "no field of a protobuf message");
  field.number = static_cast<std::uint32_t>(tag >> 3U);
  field.type = static_cast<WireField::Type>(tag & 7U);
  switch (tag & 7U) {
    case static_cast<unsigned>(WireField::Type::varint): field.value = varint(); return true;
    case static_cast<unsigned>(WireField::Type::fixed64):
      field.value = bytes_.number<std::uint64_t>(take(8));
      return true;
    case static_cast<unsigned>(WireField::Type::fixed32):
      field.value = bytes_.number<std::uint32_t>(take(4));
      return true;
    case static_cast<unsigned>(WireField::Type::bytes): {
      const std::uint64_t length = varint();
      field.extent = {.offset = take(length), .length = length};
      return true;
    }
    case group_begins: skip_group(tag >> 3U); return false;
    default: throw at_byte(position_, "no field of a protobuf message");
  }
}

// A loop and not a recursion, because the file decides how deeply groups are nested.
void WireReader::skip_group(std::uint64_t number) {
  constexpr std::size_t kDeepestGroup = 100;
  std::vector<std::uint64_t> open{number};
  while (!open.empty()) {
    if (position_ >= end_) throw at_byte(position_, "a protobuf message ends within a group");
    const std::uint64_t inner = tag();
    WireField unused;
    if ((inner & 7U) == group_begins) {
      open.push_back(inner >> 3U);
      if (open.size() > kDeepestGroup) throw at_byte(position_, "groups of a protobuf message are nested too deeply");
    } else if ((inner & 7U) == group_ends) {
      if (inner >> 3U != open.back()) throw at_byte(position_, "a group of a protobuf message ends as another");
      open.pop_back();
    } else {
      (void)read_value(inner, unused);
    }
  }
}

bool WireReader::next_varint(std::uint64_t& value) {
  if (position_ >= end_) return false;
  value = varint();
  return true;
}

bool WireReader::next_fixed32(std::uint32_t& value) {
  if (position_ >= end_) return false;
  value = bytes_.number<std::uint32_t>(take(sizeof value));
  return true;
}

}  // namespace forebay::data
