#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace forebay::fuzz {

// A feature of a tf.train.Example, with all its values.
struct FeatureValues {
  int type = 0;                        // field number of the list; 0: none
  std::vector<std::string> strings;    // 1
  std::vector<std::uint32_t> floats;   // 2, their bits
  std::vector<std::int64_t> integers;  // 3
  bool operator==(const FeatureValues&) const = default;
};
using ExampleValues = std::map<std::string, FeatureValues>;

// The message as Protocol Buffers read it, in builds that have them (with_protobuf.cpp,
// without_protobuf.cpp).
bool has_protobuf() noexcept;
// Returns nullopt if the message is refused. REQUIRES: has_protobuf()
std::optional<ExampleValues> read_by_protobuf(std::span<const std::byte> message);

}  // namespace forebay::fuzz
