#include "host_fields.hpp"

#include <algorithm>

namespace forebay::ring {

HostFields::HostFields(const make::FieldLayout& layout, std::size_t rows, std::uint32_t slots) {
  for (const make::FieldLayout::Entry& entry : layout.entries) {
    const FieldKind kind = entry.field.kind;
    Entry& copied = entries_.emplace_back();
    if (kind == FieldKind::class_number || kind == FieldKind::multilabel || kind == FieldKind::numbers) {
      copied.values = take(entry.at, entry.sample_bytes * rows);
    }
    if (entry.counts_at) copied.counts = take(*entry.counts_at, sizeof(std::int32_t) * rows);
  }
  copies_.resize(slot_bytes_ * slots);
}

// Called by the thread that completed the batch, with the bytes in staging memory, before they are
// copied to the device.
void HostFields::keep(std::uint32_t slot, const std::byte* filled) noexcept {
  std::byte* const copies = copies_.data() + slot * slot_bytes_;
  for (const Part& part : parts_) std::copy_n(filled + part.from, part.bytes, copies + part.to);
}

// Every part is aligned for any type, because programs read it through typed pointers.
std::size_t HostFields::take(std::size_t from, std::size_t bytes) {
  constexpr std::size_t kAlignment = alignof(std::max_align_t);
  const std::size_t to = slot_bytes_;
  parts_.push_back({.from = from, .bytes = bytes, .to = to});
  slot_bytes_ = (to + bytes + kAlignment - 1) / kAlignment * kAlignment;
  return to;
}

}  // namespace forebay::ring
