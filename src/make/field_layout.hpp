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

// Where a batch's fields, other than image and label, lie in a slot. They follow the images or
// canvases, one after the other: each has the values of all samples and, if ragged, then their
// counts. Everything begins at a multiple of kAlignment. A slot is one block, so that one copy
// transfers it to a device.
struct FieldLayout {
  static constexpr std::size_t kAlignment = 256;

  struct Entry {
    Field field;             // as it is in a batch
    std::size_t source = 0;  // index in Dataset::fields()
    std::size_t at = 0;      // offset of its first value in the slot
    std::size_t sample_bytes = 0;
    std::optional<std::size_t> counts_at = std::nullopt;  // ragged: offset of the first int32
  };
  // Boxes have two entries, the second for their classes; all other fields have one.
  std::vector<Entry> entries;
  std::size_t bytes = 0;  // size of a slot
  // The size of an image in the batch.
  std::int64_t height = 0;
  std::int64_t width = 0;

  // A sample's values. REQUIRES: `slot` is the first byte of a slot.
  [[nodiscard]] static std::span<std::byte> values(const Entry& entry, std::byte* slot, std::uint32_t index) noexcept {
    return {slot + entry.at + index * entry.sample_bytes, entry.sample_bytes};
  }
  // REQUIRES: the entry has counts.
  [[nodiscard]] static std::int32_t& count(const Entry& entry, std::byte* slot, std::uint32_t index) noexcept {
    return reinterpret_cast<std::int32_t*>(slot + *entry.counts_at)[index];
  }
};

// The layout of these fields in batches of `rows` rows, views included. `begin`: bytes of a slot in
// front of the fields. Throws ConfigError, naming the field, for one that cannot be served, or not
// with these options. Any thread may call.
[[nodiscard]] FieldLayout field_layout(std::span<const Field> fields, const TransformOptions& options,
                                       std::uint32_t rows, std::size_t begin);

}  // namespace forebay::make
