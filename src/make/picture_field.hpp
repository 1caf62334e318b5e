#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <forebay/field.hpp>
#include <forebay/options.hpp>
#include <forebay/view.hpp>

#include "conversion.hpp"
#include "image.hpp"
#include "image_decoder.hpp"
#include "resizer.hpp"
#include "view_axes.hpp"
#include "wide_image.hpp"

namespace forebay::make {

// Makes a field of kind "image": another picture of a sample, cropped and mirrored like its image. An 8-bit picture is
// processed exactly like the image itself and gives the same bytes. One with more bits keeps them, unless the field is
// uint8: it is resized in double precision, and (value - mean) / std is rounded once. What lies outside is
// transform.fill in both. Immutable: any thread may call.
class PictureField {
 public:
  // A thread's tools.
  struct Workspace {
    Image image;
    Resizer resizer;
    WideImage wide;
    WideResizer wide_resizer;
  };

  // `field`: as a dataset declares it or as it is in a batch. REQUIRES: field_layout() accepts it with these options.
  PictureField(const Field& field, const TransformOptions& options);

  // Makes it from an image file. Throws SampleError if the file is not an image, is damaged, or differs in size from
  // the sample's image. REQUIRES: out.size() is that of a sample.
  void make(std::span<const std::byte> bytes, const ShownPart& shown, ImageDecoder& decoder, Workspace& workspace,
            std::span<std::byte> out) const;

 private:
  void store_wide(Workspace& workspace, const ShownPart& shown, std::span<std::byte> out) const;

  ImageOptions image_;
  std::int32_t width_;  // of the result
  std::int32_t height_;
  std::array<double, 3> mean_;
  std::array<double, 3> std_;
  std::vector<std::int64_t> fill_;  // transform.fill
  Conversion conversion_;
  decltype(Kernels::convert) convert_;
};

}  // namespace forebay::make
