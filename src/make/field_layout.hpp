#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <forebay/field.hpp>
#include <forebay/options.hpp>

namespace forebay::make {

// How the fields of a batch beside image and label lie in a slot: behind the images or canvases, one after the other,
// each with the values of all samples and then, for a ragged one, a count for each. Everything begins at a multiple of
// kAlignment, and all of a slot is one block: one copy to a device.
struct FieldLayout {
  static constexpr std::size_t kAlignment = 256;

  struct Entry {
    Field field;             // as a batch has it
    std::size_t source = 0;  // in Dataset::fields()
    std::size_t at = 0;      // of its first value, from the slot's first byte
    std::size_t sample_bytes = 0;
    std::optional<std::size_t> counts_at = std::nullopt;  // ragged: of the first std::int32_t
  };
  // Boxes have two, the second for their classes; all others one.
  std::vector<Entry> entries;
  std::size_t bytes = 0;  // of a slot
  // Of an image in the batch.
  std::int64_t height = 0;
  std::int64_t width = 0;

  // Where a sample's values are. REQUIRES: `slot` is the first byte of one.
  [[nodiscard]] static std::span<std::byte> values(const Entry& entry, std::byte* slot, std::uint32_t index) noexcept {
    return {slot + entry.at + index * entry.sample_bytes, entry.sample_bytes};
  }
  // REQUIRES: the entry has counts.
  [[nodiscard]] static std::int32_t& count(const Entry& entry, std::byte* slot, std::uint32_t index) noexcept {
    return reinterpret_cast<std::int32_t*>(slot + *entry.counts_at)[index];
  }
};

// The layout of these fields in batches of `rows`, views counted; `begin`: bytes of what comes first in a slot. Throws
// ConfigError that names the field for one that cannot be served, or not with these options.
[[nodiscard]] FieldLayout field_layout(std::span<const Field> fields, const TransformOptions& options,
                                       std::uint32_t rows, std::size_t begin);

}  // namespace forebay::make
