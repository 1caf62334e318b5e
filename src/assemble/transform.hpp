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

  // Writes the sample at `position` of `epoch`, made of `box` within `image` (the whole image without one), to `out`.
  // uint8 keeps pixel values as they are; other types store (value - mean) / std, computed in double and rounded once.
  // Throws SampleError when the box has no area or lies outside the image, or a side exceeds Resampling::kMaxSide.
  // REQUIRES: out.size() == sample_bytes(); no alignment is needed.
  void apply(const Image& image, const std::optional<Box>& box, std::uint64_t epoch, std::uint64_t position,
             std::span<std::byte> out, Scratch& scratch) const;

  // What apply() shows of a box inside the image.
  struct View {
    Box region;
    bool mirror = false;
  };
  [[nodiscard]] View choose_view(const Box& box, std::uint64_t epoch, std::uint64_t position) const noexcept;

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
