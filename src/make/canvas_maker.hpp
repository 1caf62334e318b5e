#pragma once

#include <cstdint>
#include <optional>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include "canvas.hpp"
#include "image.hpp"
#include "kernels.hpp"
#include "resizer.hpp"

namespace forebay::make {

// Turns a decoded image into the canvas of a sample: clamp the box, make each side as small as the place's, store the
// pixels. Nothing is chosen at random, so a canvas depends on its sample only. Immutable: threads may call
// concurrently, each with its own Scratch.
class CanvasMaker {
 public:
  using Scratch = Resizer;

  // `kernels` must outlive this; all kernels give the same bytes. Throws ConfigError naming the key for options that
  // cannot be honoured.
  explicit CanvasMaker(const TransformOptions& options, const Kernels& kernels = best_kernels());

  // Bytes of a place.
  [[nodiscard]] std::size_t place_bytes() const noexcept { return format_.place_bytes(); }

  // What a canvas shows of its image.
  struct View {
    Box region;  // in pixels of the whole image as displayed
    CanvasInfo info;
  };
  // The view for an image of this size, restricted to `box` if there is one. Needs no pixels. Throws SampleError if the
  // box has no area or lies outside the image, or a side exceeds Resampling::kMaxSide.
  [[nodiscard]] View view(std::int32_t width, std::int32_t height, const std::optional<Box>& box) const;

  // The largest of 1, 2, 4 and 8 by which an image may be made smaller before its canvas is, without being enlarged
  // then.
  [[nodiscard]] static std::int32_t shrink_of(const View& view) noexcept;

  // Writes the canvas of an image, of which `image` may contain only a part or a shrunk version; the unused rest of the
  // place is left unchanged. REQUIRES: view.region within image.area; the place is one of CanvasFormat's.
  void render(const Image& image, const View& view, const SamplePlace& place, Scratch& scratch) const;

 private:
  CanvasFormat format_;
  Conversion conversion_;  // to bytes, pixel by pixel
  decltype(Kernels::convert) convert_;
};

}  // namespace forebay::make
