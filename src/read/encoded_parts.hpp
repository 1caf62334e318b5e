#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "data/placed_samples.hpp"
#include "requests.hpp"

// Lays out the buffer of a sample with fields, as EncodedSample describes it, when all sizes are known beforehand.
namespace forebay::read {

[[nodiscard]] inline std::size_t encoded_bytes(const data::Placement& placement) noexcept {
  std::uint64_t bytes = placement.length + placement.fields.size() * sizeof(std::uint64_t);
  for (const std::uint64_t field : placement.fields) bytes += field;
  return static_cast<std::size_t>(bytes);
}

// The value of EncodedSample::image_bytes.
[[nodiscard]] inline std::size_t image_bytes_of(const data::Placement& placement) noexcept {
  return placement.fields.empty() ? SIZE_MAX : static_cast<std::size_t>(placement.length);
}

// Writes the table of where each field ends, and appends the places of image and fields to `parts`. REQUIRES: the
// buffer has encoded_bytes().
inline void lay_out(std::span<std::byte> buffer, const data::Placement& placement,
                    std::vector<std::span<std::byte>>& parts) {
  const auto image = static_cast<std::size_t>(placement.length);
  parts.push_back(buffer.first(image));
  std::uint64_t end = image + placement.fields.size() * sizeof end;
  for (std::size_t i = 0; i < placement.fields.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(placement.fields[i]);
    parts.push_back(buffer.subspan(static_cast<std::size_t>(end), bytes));
    end += bytes;
    std::memcpy(buffer.data() + image + i * sizeof end, &end, sizeof end);
  }
}

}  // namespace forebay::read
