#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crc32c.hpp"
#include "dataset_support.hpp"

// Containers as other programs write them, byte for byte.
namespace forebay::testing {

template <typename Number>
std::string little_endian(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

// Protocol Buffers.
inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>(value | 0x80U);
  return bytes + static_cast<char>(value);
}
inline std::string wire_number(std::uint32_t field, std::uint64_t value) {
  return varint(std::uint64_t{field} << 3U) + varint(value);
}
inline std::string wire_bytes(std::uint32_t field, std::string_view bytes) {
  return varint((std::uint64_t{field} << 3U) | 2U) + varint(bytes.size()) + std::string(bytes);
}

// The features of a tf.train.Example.
inline std::string bytes_feature(const std::vector<std::string>& values) {
  std::string list;
  for (const auto& value : values) list += wire_bytes(1, value);
  return wire_bytes(1, list);
}
inline std::string int64_feature(const std::vector<std::int64_t>& values) {
  std::string packed;
  for (const auto value : values) packed += varint(static_cast<std::uint64_t>(value));
  return wire_bytes(3, wire_bytes(1, packed));
}
inline std::string float_feature(const std::vector<float>& values) {
  std::string packed;
  for (const auto value : values) packed += little_endian(value);
  return wire_bytes(2, wire_bytes(1, packed));
}
inline std::string example(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string map;
  for (const auto& [name, feature] : features) map += wire_bytes(1, wire_bytes(1, name) + wire_bytes(2, feature));
  return wire_bytes(1, map);
}
inline std::string image_example(const std::string& image, std::int64_t label) {
  return example({{"image/encoded", bytes_feature({image})}, {"image/class/label", int64_feature({label})}});
}

inline std::string masked_sum(std::string_view bytes) { return little_endian(masked_crc32c(crc32c(bytes_of(bytes)))); }
inline std::string tf_record(const std::string& data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + masked_sum(length) + data + masked_sum(data);
}

}  // namespace forebay::testing
