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

// Turns a decoded image into the canvas of a sample: clamps the box to the image, shrinks each side
// to at most the place's, and stores the pixels. Nothing is random, so a canvas depends only on its
// sample. Immutable: threads may call concurrently, each with its own Scratch.
class CanvasMaker {
 public:
  using Scratch = Resizer;

  // `kernels` must outlive this; all kernels give the same bytes. Throws ConfigError, naming the
  // key, for options that cannot be honoured.
  explicit CanvasMaker(const TransformOptions& options, const Kernels& kernels = best_kernels());

  // Bytes reserved for each canvas.
  [[nodiscard]] std::size_t place_bytes() const noexcept { return format_.place_bytes(); }

  // What a canvas shows of its image.
  struct View {
    Box region;  // in pixels of the whole image as displayed
    CanvasInfo info;
  };
  // The view for an image of this size, restricted to `box` if there is one. Needs no pixels. Throws SampleError if the
  // box has no area or lies outside the image, or a side exceeds Resampling::kMaxSide.
  [[nodiscard]] View view(std::int32_t width, std::int32_t height, const std::optional<Box>& box) const;

  // The largest of 1, 2, 4 and 8 by which the decoder may shrink the image such that the canvas
  // need not enlarge it again.
  [[nodiscard]] static std::int32_t shrink_of(const View& view) noexcept;

  // Writes the canvas. `image` may hold only a part of the whole image, or a smaller version of it.
  // Bytes of the place that the canvas does not use are left unchanged. REQUIRES: view.region
  // within image.area; the place is one of CanvasFormat's.
  void render(const Image& image, const View& view, const SamplePlace& place, Scratch& scratch) const;

 private:
  CanvasFormat format_;
  Conversion conversion_;  // to interleaved bytes
  decltype(Kernels::convert) convert_;
};

}  // namespace forebay::make
