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

// Writes a sample's array as elements of the field. The bytes are an npy file, of any type whose
// numbers the field's type can represent, or plain elements. `to` has room for one sample. Throws
// SampleError for a wrong shape, a wrong number of bytes, and numbers that the field's type cannot
// represent. Any thread may call.
void write_array(const Field& field, std::span<const std::byte> bytes, std::span<std::byte> to);

// Writes a field of a sample to its place in a slot, from the bytes of Dataset::read_field(), which
// are not trusted. Immutable: any thread may call.
class FieldMaker {
 public:
  // A thread's working memory, in addition to its ImageDecoder.
  struct Workspace {
    ImageTurn turn;  // how the sample's image was rotated
    ViewAxes axes;   // the view that the sample shows
    MaskField::Workspace mask;
    PictureField::Workspace picture;
  };
  // Where the field goes, and the part of the image that its sample shows.
  struct Target {
    std::byte* slot = nullptr;  // first byte of the slot
    std::uint32_t index = 0;    // the sample's row in the batch
    const SampleView& view;
  };

  // `layout`: of the slots, made with the same options; must outlive this.
  FieldMaker(const FieldLayout& layout, const TransformOptions& options);

  // Makes the dataset's field number `source`. Throws SampleError if something is wrong with the
  // bytes, and says what.
  void make(std::size_t source, std::span<const std::byte> bytes, const Target& target, ImageDecoder& decoder,
            Workspace& workspace) const;

 private:
  const FieldLayout* layout_;
  // One for each entry of the layout.
  std::vector<std::optional<PictureField>> pictures_;
  std::vector<std::optional<MaskField>> masks_;
};

}  // namespace forebay::make
