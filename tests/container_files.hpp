#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
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

// A member of a tar archive with a header as V7 has it, or with what `change` makes of that. Its checksum is right.
using TarHeader = std::array<char, 512>;
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0',
                              const std::function<void(TarHeader&)>& change = {}) {
  TarHeader header{};
  name.copy(header.data(), 100);
  std::snprintf(header.data() + 100, 8, "%07o", 0644U);
  std::snprintf(header.data() + 124, 12, "%011zo", content.size());
  header[156] = type;
  if (change) change(header);
  std::memset(header.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  const std::string padding((512 - content.size() % 512) % 512, '\0');
  return std::string(header.data(), header.size()) + content + padding;
}
inline std::string tar_end() { return std::string(1024, '\0'); }
// A line of a pax header.
inline std::string pax_line(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) length = std::to_string(length).size() + rest.size();
  return std::to_string(length) + rest;
}
inline std::string tar_sample(const std::string& key, const std::string& image, const std::string& label) {
  return tar_member(key + ".jpg", image) + tar_member(key + ".cls", label);
}

// A part of a RecordIO file, with its padding. Flag 0: a whole record; 1, 2, 3: the first, a middle, the last part.
inline std::string record_part(const std::string& data, std::uint32_t flag = 0) {
  const auto flags = (flag << 29U) | static_cast<std::uint32_t>(data.size());
  return little_endian(std::uint32_t{0xCED7230A}) + little_endian(flags) + data +
         std::string((4 - data.size() % 4) % 4, '\0');
}
// The data of an image record with one label in its header, or with several behind it.
inline std::string image_record(const std::string& image, float label, std::uint64_t id = 0) {
  return little_endian(std::uint32_t{0}) + little_endian(label) + little_endian(id) + little_endian(std::uint64_t{0}) +
         image;
}
inline std::string image_record(const std::string& image, const std::vector<float>& labels) {
  std::string header = little_endian(static_cast<std::uint32_t>(labels.size())) + std::string(20, '\0');
  for (const float label : labels) header += little_endian(label);
  return header + image;
}

}  // namespace forebay::testing
