#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <forebay/dataset.hpp>
#include <forebay/detail/pipeline.hpp>
#include <forebay/options.hpp>

#include "region.hpp"
#include "resizer.hpp"

namespace forebay {

// Turns a decoded image into one sample of a batch, written once, straight into its place in a slot: clamp the box,
// choose the region, resize with mirror, look each byte up in a table of normalised values, store in the layout.
//
// What is chosen at random depends on (seed, epoch, position) only; everything after it is integer arithmetic or a
// table, so the same sample is the same bytes on any thread of any machine.
// Immutable: any thread may call at the same time, each with a Scratch of its own.
class Transform {
 public:
  // Working memory of one thread; grows to the largest sample it has met, then stays.
  using Scratch = Resizer;

  // `deterministic` (evaluation) turns mirroring off and a random crop into the central one.
  // Throws ConfigError naming the key for options that cannot be honoured.
  Transform(const TransformOptions& options, std::uint64_t seed, bool deterministic);

  // Bytes of one sample: 3 * height * width elements.
  [[nodiscard]] std::size_t sample_bytes() const noexcept;

  // What a sample shows of its image.
  struct View {
    Box region;  // in pixels of the whole image as displayed
    bool mirror = false;
  };
  // Of an image of this size, the view of the sample at `position` of `epoch`, made of `box` (the whole image without
  // one). Needs no pixels, so that only those it shows need be decoded.
  // Throws SampleError when the box has no area or lies outside the image, or a side exceeds Resampling::kMaxSide.
  [[nodiscard]] View view(std::int32_t width, std::int32_t height, const std::optional<Box>& box, std::uint64_t epoch,
                          std::uint64_t position) const;
  // The same within a box that is inside its image.
  [[nodiscard]] View choose_view(const Box& box, std::uint64_t epoch, std::uint64_t position) const noexcept;

  // The largest of 1, 2, 4 and 8 by which an image may be made smaller before this view of it is resized, without being
  // enlarged then.
  [[nodiscard]] std::int32_t shrink_of(const View& view) const noexcept;

  // Writes the view of an image, whose pixels may be a part of it or made smaller, to `out`.
  // uint8 keeps pixel values as they are; other types store (value - mean) / std, computed in double and rounded once.
  // REQUIRES: view.region within image.area; out.size() == sample_bytes(); no alignment is needed.
  void render(const Image& image, const View& view, std::span<std::byte> out, Scratch& scratch) const;

  // view() and render() of a whole image.
  void apply(const Image& image, const std::optional<Box>& box, std::uint64_t epoch, std::uint64_t position,
             std::span<std::byte> out, Scratch& scratch) const;

 private:
  using Table = std::array<std::array<std::uint32_t, 256>, 3>;  // bits of the element, by channel and value

  template <typename Element>
  void write(Scratch& scratch, std::span<std::byte> out) const;

  std::int32_t height_;
  std::int32_t width_;
  Crop crop_;
  double center_fraction_;
  double mirror_;  // probability
  RandomRegion random_region_;
  DType dtype_;
  Layout layout_;
  std::uint64_t seed_;
  Table table_{};
};

}  // namespace forebay
