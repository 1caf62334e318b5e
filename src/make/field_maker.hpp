#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <forebay/field.hpp>
#include <forebay/options.hpp>
#include <forebay/view.hpp>

#include "field_layout.hpp"
#include "image.hpp"
#include "image_decoder.hpp"
#include "mask_field.hpp"
#include "view_axes.hpp"

namespace forebay::make {

// Writes an array of a sample as elements of the field: from an npy file, whose numbers may be of another type as long
// as the field's holds them, or from the elements alone. `to` has room for a sample. Throws SampleError for another
// shape, another number of bytes, and numbers that the field's type does not hold. Any thread.
void write_array(const Field& field, std::span<const std::byte> bytes, std::span<std::byte> to);

// Puts a field of a sample into its place in a slot, from the bytes that Dataset::read_field() gave, which are not
// trusted. Immutable: any thread may call.
class FieldMaker {
 public:
  // A thread's tools beside its ImageDecoder.
  struct Workspace {
    ImageTurn turn;  // of the image that the fields lie beside
    ViewAxes axes;   // of what the sample shows of it
    MaskField::Workspace mask;
    PictureField::Workspace picture;
  };
  // Where a field goes, and which part of the image its sample shows.
  struct Target {
    std::byte* slot = nullptr;  // its first byte
    std::uint32_t index = 0;    // place of the sample
    const SampleView& view;
  };

  // `layout`: the slots' layout, made for these options; must outlive this.
  FieldMaker(const FieldLayout& layout, const TransformOptions& options);

  // Makes the field of the dataset with the number `source`. Throws SampleError that says what is wrong with the bytes.
  void make(std::size_t source, std::span<const std::byte> bytes, const Target& target, ImageDecoder& decoder,
            Workspace& workspace) const;

 private:
  const FieldLayout* layout_;
  // By entry.
  std::vector<std::optional<PictureField>> pictures_;
  std::vector<std::optional<MaskField>> masks_;
};

}  // namespace forebay::make
