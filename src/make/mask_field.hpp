#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <forebay/field.hpp>
#include <forebay/options.hpp>
#include <forebay/view.hpp>

#include "conversion.hpp"
#include "data/colour_table.hpp"
#include "image.hpp"
#include "image_decoder.hpp"
#include "mask_drawer.hpp"
#include "resizer.hpp"
#include "view_axes.hpp"
#include "wide_image.hpp"

namespace forebay::make {

// Makes a field of kind "image": another picture of a sample, cropped and mirrored like its image.
// An 8-bit picture is processed exactly like the image itself and gives the same bytes. One with
// more bits keeps them, unless the field is uint8: it is resized in double precision, and (value -
// mean) / std is rounded once. Outside the picture both have transform.fill. Immutable: any thread
// may call.
class PictureField {
 public:
  // A thread's working memory.
  struct Workspace {
    Image image;
    Resizer resizer;
    WideImage wide;
    WideResizer wide_resizer;
  };

  // `field`: as the dataset declares it, or as it is in a batch. REQUIRES: field_layout() accepts
  // it with these options.
  PictureField(const Field& field, const TransformOptions& options);

  // Makes the field from an image file. Throws SampleError if the file is not an image, is damaged,
  // or differs in size from the sample's image. REQUIRES: out.size() is that of a sample.
  void make(std::span<const std::byte> bytes, const ShownPart& shown, ImageDecoder& decoder, Workspace& workspace,
            std::span<std::byte> out) const;

 private:
  void store_wide(Workspace& workspace, const ShownPart& shown, std::span<std::byte> out) const;

  ImageOptions image_;
  std::int32_t width_;  // size of the result
  std::int32_t height_;
  std::array<double, 3> mean_;
  std::array<double, 3> std_;
  std::vector<std::int64_t> fill_;  // transform.fill
  Conversion conversion_;
  decltype(Kernels::convert) convert_;
};

// Makes a field of kind "mask": the class number of each pixel, from an image's values, from its
// colours, or from shapes. It is cropped and mirrored like the sample's image and resized by
// nearest neighbour; outside the image it is 0. Immutable: any thread may call.
class MaskField {
 public:
  // A thread's working memory.
  struct Workspace {
    Mask mask;
    Mask turned_mask;
    Image colours;
    WideImage wide;
    WideImage turned_wide;
    MaskDrawer drawer;
    std::vector<std::size_t> columns;  // the mask's column for each result column
  };

  // A value that every mask may have, however few classes there are: the pixel belongs to no class.
  static constexpr std::uint8_t kIgnored = 255;

  // `field`: as the dataset declares it, or as it is in a batch. REQUIRES: field_layout() accepts
  // it with these options.
  MaskField(const Field& field, const TransformOptions& options);

  // Makes the field from an image file or a drawn mask. One that has the size of the unrotated
  // image is rotated, too. Throws SampleError for one that is damaged, differs in size from the
  // sample's image, or has a colour or class that the field lacks. REQUIRES: out.size() is that of
  // a sample.
  void make(std::span<const std::byte> bytes, const ShownPart& shown, ImageDecoder& decoder, Workspace& workspace,
            std::span<std::byte> out) const;

 private:
  // Returns true if the values are in workspace.wide, false if they are in workspace.mask.
  [[nodiscard]] bool decode(std::span<const std::byte> bytes, ImageDecoder& decoder, Workspace& workspace) const;
  void look_up(const Image& colours, Mask& mask) const;
  template <typename Value>
  void require_classes(std::span<const Value> values, std::int32_t width) const;

  Field field_;
  std::optional<data::ColourTable> colours_;
  ImageOptions image_;
};

}  // namespace forebay::make
