#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "make/field_layout.hpp"

namespace forebay::ring {

// The host's copies of fields of batches on a device: classes, flags and numbers, and the row counts of ragged fields.
// Programs read them without waiting for the device.
class HostFields {
 public:
  HostFields(const make::FieldLayout& layout, std::size_t rows, std::uint32_t slots);

  // Copies from `filled`, the batch that the slot is about to hold. REQUIRES: the batch is complete, and nobody reads
  // the slot's copies.
  void keep(std::uint32_t slot, const std::byte* filled) noexcept;
  // The copy of the layout's entry with this number; null if there is none.
  [[nodiscard]] const std::byte* values(std::uint32_t slot, std::size_t entry) const noexcept {
    return at(slot, entries_[entry].values);
  }
  [[nodiscard]] const std::byte* counts(std::uint32_t slot, std::size_t entry) const noexcept {
    return at(slot, entries_[entry].counts);
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Part {
    std::size_t from;  // in a slot
    std::size_t bytes;
    std::size_t to;  // in the copies of a slot
  };
  struct Entry {
    std::size_t values = kNone;
    std::size_t counts = kNone;
  };

  [[nodiscard]] std::size_t take(std::size_t from, std::size_t bytes);
  [[nodiscard]] const std::byte* at(std::uint32_t slot, std::size_t place) const noexcept {
    return place == kNone ? nullptr : copies_.data() + slot * slot_bytes_ + place;
  }

  std::vector<Part> parts_;
  std::vector<Entry> entries_;
  std::size_t slot_bytes_ = 0;
  std::vector<std::byte> copies_;
};

}  // namespace forebay::ring
