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

// Turns a decoded image into one sample of a batch, written once, directly into its place in a slot: clamp the box,
// choose the region, resize with mirror, normalise, store in the layout; row by row, while a row is in the first-level
// cache.
//
// Random choices depend only on (seed, epoch, position). Everything after them is integer arithmetic and a table of
// normalised values, or a computation verified to give the table's values: a sample has the same bytes on any thread of
// any machine. Immutable: threads may call concurrently, each with its own Scratch.
class Transform {
 public:
  // Working memory of one thread; grows to the largest sample that it has seen, then stays.
  using Scratch = Resizer;

  // Whether samples are written past the caches (only rows that fill whole cache lines are).
  enum class Stores : std::uint8_t { normal, streaming };

  // Streaming from 16 MB per batch on: a normal store first reads the memory that it then overwrites, but a batch that
  // stays cached is faster to read. An image took 163 us instead of 209 in batches of 38 MB, 15 instead of 10 in
  // batches of 3 MB (Sapphire Rapids, 2 MB of L2).
  [[nodiscard]] static Stores stores_for(const TransformOptions& options, std::uint64_t batch_size) noexcept;

  // `deterministic` (evaluation): no mirroring, and the central instead of a random crop. `kernels` must outlive this;
  // all kernels give the same bytes. Throws ConfigError naming the key for options that cannot be honoured.
  Transform(const TransformOptions& options, std::uint64_t seed, bool deterministic, Stores stores = Stores::normal,
            const Kernels& kernels = best_kernels());

  // Bytes of one sample: channels * height * width elements.
  [[nodiscard]] std::size_t sample_bytes() const noexcept;

  struct View {
    Box region;  // the shown region, in whole pixels of the image
    bool mirror = false;
    ViewAxes axes;  // the exact region
    Box pixels;     // the image's pixels from which it is made
  };
  // The view of the sample at `position` of `epoch`, for an image of this size, within `box` if there is one. Needs no
  // pixels, so that only the shown ones need be decoded. Throws SampleError if the box has no area or lies outside the
  // image, a side exceeds Resampling::kMaxSide, or the box is smaller than the crop (CropRule).
  [[nodiscard]] View view(std::int32_t width, std::int32_t height, const std::optional<Box>& box, std::uint64_t epoch,
                          std::uint64_t position) const;
  // The same within a box that is inside its image.
  [[nodiscard]] View choose_view(const Box& box, std::uint64_t epoch, std::uint64_t position) const;

  // The largest of 1, 2, 4 and 8 by which an image may be made smaller before this view of it is resized, without being
  // enlarged then.
  [[nodiscard]] std::int32_t shrink_of(const View& view) const noexcept;

  // Writes the view of an image, which may hold only a part of the pixels or be shrunk, to `out`, converted as
  // conversion_of() says. REQUIRES: view.pixels within image.area; out.size() == sample_bytes(); no alignment is
  // needed.
  void render(const Image& image, const View& view, std::span<std::byte> out, Scratch& scratch) const;

  // The two steps of render(), to allow work between them. After begin(), scratch.row() makes the rows of the view, in
  // pixels of kPixelBytes; write() stores the rows that row_at(y) returns for y = 0, 1, ..., which must be readable for
  // width() pixels until the next call.
  void begin(const Image& image, const View& view, Scratch& scratch) const;
  template <class RowAt>
  void write(std::span<std::byte> out, const RowAt& row_at) const;

  // Width of the result.
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

// A Transform with operations between the view and the store. Without operations a plain Transform is used, which need
// not check for them. Immutable: threads may call concurrently, each with its own Scratch.
class OperatedTransform {
 public:
  // Working memory of one thread besides Transform::Scratch; grows to the size of the result, then stays.
  struct Scratch {
    std::vector<Pixel> view;
    std::vector<std::uint8_t> row;
  };

  // `kernels` must stay; all of them give the same bytes.
  OperatedTransform(Transform transform, OperationChain operations, std::uint64_t seed,
                    const Kernels& kernels = best_kernels());

  [[nodiscard]] const Transform& transform() const noexcept { return transform_; }

  // Like Transform::render(), for the sample at `position` of `epoch`. Throws OperationError.
  void render(const Image& image, const Transform::View& view, std::uint64_t epoch, std::uint64_t position,
              std::span<std::byte> out, Transform::Scratch& resizer, Scratch& scratch) const;

 private:
  // Row y of the view in pixels of kPixelBytes, before pixel operations; after all calls.
  template <class RowAt>
  void store(const RowAt& row_at, std::uint64_t key, std::span<std::byte> out, Scratch& scratch) const;

  Transform transform_;
  OperationChain operations_;
  std::uint64_t seed_;
  decltype(Kernels::recolour) recolour_;
};

}  // namespace forebay::make
