#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/operation.hpp>
#include <forebay/options.hpp>

#include "conversion.hpp"
#include "image.hpp"
#include "kernels.hpp"
#include "operation_chain.hpp"
#include "resizer.hpp"
#include "view_axes.hpp"
#include "views.hpp"

namespace forebay::make {

// Turns a decoded image into one sample of a batch, and writes it once, directly to its place in a
// slot: clamps the box, chooses the region, resizes and mirrors, normalises, and stores in the
// layout. It goes row by row, while a row is in the first-level cache.
//
// Random choices depend only on (seed, epoch, position). Everything after them is integer
// arithmetic and a table of normalised values, or a computation verified to give the table's
// values. So a sample has the same bytes on any thread of any machine. Immutable: threads may call
// concurrently, each with its own Scratch.
class Transform {
 public:
  // A thread's working memory; grows to the largest sample so far, and stays.
  using Scratch = Resizer;

  // Whether samples are stored past the caches; that applies only to rows that fill whole cache
  // lines.
  enum class Stores : std::uint8_t { normal, streaming };

  // Streaming from 16 MB per batch on. A normal store first reads the memory that it overwrites; on
  // the other hand, a batch that stays in the cache is faster to read. An image took 163 us instead
  // of 209 in batches of 38 MB, and 15 instead of 10 in batches of 3 MB (Sapphire Rapids, 2 MB of
  // L2).
  [[nodiscard]] static Stores stores_for(const TransformOptions& options, std::uint64_t batch_size) noexcept;

  // `deterministic` (evaluation): no mirroring, and the central instead of a random crop. `kernels`
  // must outlive this; all kernels give the same bytes. Throws ConfigError, naming the key, for
  // options that cannot be honoured.
  Transform(const TransformOptions& options, std::uint64_t seed, bool deterministic, Stores stores = Stores::normal,
            const Kernels& kernels = best_kernels());

  // Bytes of one sample: channels * height * width elements.
  [[nodiscard]] std::size_t sample_bytes() const noexcept;

  struct View {
    Box region;  // the shown region, in whole pixels of the image
    bool mirror = false;
    ViewAxes axes;  // the region to a fraction of a pixel
    Box pixels;     // the image pixels from which the view is resampled
  };
  // The view of the sample at `position` of `epoch`, for an image of this size, within `box` if
  // there is one. Needs no pixels, so that only those shown need be decoded. Throws SampleError if
  // the box has no area or lies outside the image, if a side exceeds Resampling::kMaxSide, or if
  // the box is smaller than the crop (CropRule).
  [[nodiscard]] View view(std::int32_t width, std::int32_t height, const std::optional<Box>& box, std::uint64_t epoch,
                          std::uint64_t position) const;
  // Likewise, for a box that is known to be inside its image.
  [[nodiscard]] View choose_view(const Box& box, std::uint64_t epoch, std::uint64_t position) const;

  // The largest of 1, 2, 4 and 8 by which the decoder may shrink an image such that this view of it
  // need not be enlarged again.
  [[nodiscard]] std::int32_t shrink_of(const View& view) const noexcept;

  // Writes the view of an image to `out`, converted by conversion_of(). `image` may hold only a
  // part of the pixels, or be shrunk. REQUIRES: view.pixels within image.area; out.size() ==
  // sample_bytes(); no alignment is needed.
  void render(const Image& image, const View& view, std::span<std::byte> out, Scratch& scratch) const;

  // The two steps of render(), to allow work between them. After begin(), scratch.row() makes the
  // rows of the view, in pixels of kPixelBytes. write() stores the rows that row_at(y) returns for
  // y = 0, 1, ...; each must be readable for width() pixels until the next call of row_at().
  void begin(const Image& image, const View& view, Scratch& scratch) const;
  template <class RowAt>
  void write(std::span<std::byte> out, const RowAt& row_at) const;

  // The size of the result.
  [[nodiscard]] std::int32_t width() const noexcept { return rule_.width; }
  [[nodiscard]] std::int32_t height() const noexcept { return rule_.height; }

  // view() and render() of a whole image.
  void apply(const Image& image, const std::optional<Box>& box, std::uint64_t epoch, std::uint64_t position,
             std::span<std::byte> out, Scratch& scratch) const;

 private:
  ViewRule rule_;
  std::optional<CropRule> crop_;
  FillPixel fill_;
  std::uint64_t seed_;
  Conversion conversion_;
  decltype(Kernels::convert) convert_;
};

template <class RowAt>
void Transform::write(std::span<std::byte> out, const RowAt& row_at) const {
  const std::size_t step =
      conversion_.width * (conversion_.layout == Layout::nchw ? 1 : conversion_.channels) * size_of(conversion_.dtype);
  std::byte* to = out.data();
  for (std::int32_t y = 0; y < rule_.height; ++y, to += step) convert_(row_at(y), conversion_, to);
  if (conversion_.stream) finish_streaming();
}

// A Transform with operations between the view and the store. Without operations a plain Transform
// is used, which does not have to check for them. Immutable: threads may call concurrently, each
// with its own Scratch.
class OperatedTransform {
 public:
  // A thread's working memory besides Transform::Scratch; grows to the size of the result, and
  // stays.
  struct Scratch {
    std::vector<Pixel> view;
    std::vector<std::uint8_t> row;
  };

  // `kernels` must outlive this; all kernels give the same bytes.
  OperatedTransform(Transform transform, OperationChain operations, std::uint64_t seed,
                    const Kernels& kernels = best_kernels());

  [[nodiscard]] const Transform& transform() const noexcept { return transform_; }

  // Like Transform::render(), for the sample at `position` of `epoch`. Throws OperationError.
  void render(const Image& image, const Transform::View& view, std::uint64_t epoch, std::uint64_t position,
              std::span<std::byte> out, Transform::Scratch& resizer, Scratch& scratch) const;

 private:
  // Applies the pixel operations and stores. row_at(y): row y of the view, after all calls, in
  // pixels of kPixelBytes.
  template <class RowAt>
  void store(const RowAt& row_at, std::uint64_t key, std::span<std::byte> out, Scratch& scratch) const;

  Transform transform_;
  OperationChain operations_;
  std::uint64_t seed_;
  decltype(Kernels::recolour) recolour_;
};

}  // namespace forebay::make
