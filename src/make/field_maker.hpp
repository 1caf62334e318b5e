#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <forebay/field.hpp>
#include <forebay/view.hpp>

#include "field_layout.hpp"

namespace forebay {

// Puts a field of a sample into its place in a slot, from the bytes that Dataset::read_field() gave. Nothing in those
// is trusted. Immutable: any thread may call.
class FieldMaker {
 public:
  // `layout`: of the slots; it must stay.
  explicit FieldMaker(const FieldLayout& layout) noexcept : layout_(&layout) {}

  // The field of the dataset with the number `source`, of the sample at `index` that shows `view`. `slot`: the first
  // byte of one. Throws SampleError that says what is wrong with the bytes.
  void make(std::size_t source, std::span<const std::byte> bytes, const SampleView& view, std::byte* slot,
            std::uint32_t index) const;

 private:
  const FieldLayout* layout_;
};

}  // namespace forebay
