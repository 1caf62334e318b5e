#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/index_format.hpp"

// The parts of a serialized index.
namespace forebay::testing {

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The content of an index and its record, as they stand in the bytes.
inline std::span<const std::byte> content_of(std::span<const std::byte> index) {
  return index.subspan(read_index_layout(index.first(kIndexHeader), index.size(), "sound").content_at);
}
inline IndexRecord record_of(std::span<const std::byte> index) {
  const IndexLayout at = read_index_layout(index.first(kIndexHeader), index.size(), "sound");
  return read_index_record(at, index.subspan(at.sums_at, at.sums_bytes), index.subspan(at.record_at, at.record_bytes),
                           "sound");
}

}  // namespace forebay::testing
