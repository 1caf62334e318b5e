#include "example_reader.hpp"

namespace forebay::fuzz {

bool has_protobuf() noexcept { return false; }
std::optional<ExampleValues> read_by_protobuf(std::span<const std::byte> /*message*/) { return std::nullopt; }

}  // namespace forebay::fuzz
