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

// Writes a sample's array as elements of the field: from an npy file, whose numbers may be of another type if the
// field's type can represent them, or from plain elements. `to` has room for a sample. Throws SampleError for a wrong
// shape, a wrong number of bytes, and numbers that the field's type cannot represent. Any thread.
void write_array(const Field& field, std::span<const std::byte> bytes, std::span<std::byte> to);

// Writes a sample's field to its place in a slot, from the bytes of Dataset::read_field(), which are not trusted.
// Immutable: any thread may call.
class FieldMaker {
 public:
  // A thread's working memory besides its ImageDecoder.
  struct Workspace {
    ImageTurn turn;  // how the sample's image was rotated
    ViewAxes axes;   // the view that the sample shows
    MaskField::Workspace mask;
    PictureField::Workspace picture;
  };
  // The destination of a field, and the part of the image that its sample shows.
  struct Target {
    std::byte* slot = nullptr;  // its first byte
    std::uint32_t index = 0;    // place of the sample
    const SampleView& view;
  };

  // `layout`: the slots' layout, made for these options; must outlive this.
  FieldMaker(const FieldLayout& layout, const TransformOptions& options);

  // Makes the dataset's field number `source`. Throws SampleError, which says what is wrong with the bytes.
  void make(std::size_t source, std::span<const std::byte> bytes, const Target& target, ImageDecoder& decoder,
            Workspace& workspace) const;

 private:
  const FieldLayout* layout_;
  // By entry.
  std::vector<std::optional<PictureField>> pictures_;
  std::vector<std::optional<MaskField>> masks_;
};

}  // namespace forebay::make
