#pragma once

#include <cstddef>
#include <span>

#include <forebay/field.hpp>
#include <forebay/options.hpp>
#include <forebay/view.hpp>

#include "conversion.hpp"
#include "image.hpp"
#include "image_decoder.hpp"
#include "resizer.hpp"
#include "wide_image.hpp"

namespace forebay {

// Makes a field of kind "image": another picture of a sample, of which a batch shows what the view shows of its image.
// A picture of 8 bits takes the way of the image itself and gives the same bytes. One of more bits keeps them, unless
// the field is uint8: it is resized in double precision, and (value - mean) / std is rounded once.
// Immutable: any thread may call.
class PictureField {
 public:
  // A thread's tools.
  struct Workspace {
    Image image;
    Resizer resizer;
    WideImage wide;
    WideResizer wide_resizer;
  };

  // `field`: as a data set gives it or as a batch has it. REQUIRES: field_layout() accepts it with these options.
  PictureField(const Field& field, const TransformOptions& options);

  // Makes it of an image file. Throws SampleError for a file that is none, is damaged, or has another size than the
  // image. REQUIRES: out.size() is that of a sample.
  void make(std::span<const std::byte> bytes, const SampleView& view, ImageDecoder& decoder, Workspace& workspace,
            std::span<std::byte> out) const;

 private:
  void store_wide(Workspace& workspace, const SampleView& view, std::span<std::byte> out) const;

  ImageOptions image_;
  std::int32_t width_;  // of the result
  std::int32_t height_;
  std::array<double, 3> mean_;
  std::array<double, 3> std_;
  Conversion conversion_;
  decltype(Kernels::convert) convert_;
};

}  // namespace forebay
