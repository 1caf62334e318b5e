#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <forebay/tensor.hpp>
#include <forebay/view.hpp>

#include "pixel_math.hpp"
#include "views.hpp"

// With transform.when = "dequeue" a slot holds canvases: of each sample the whole image, or its box of it, as bytes
// and small enough for a place of fixed size. Each serving makes a tensor of them, with a view of its own.
namespace forebay::make {

// What is known of one canvas beside its pixels.
struct CanvasInfo {
  std::int32_t width = 0;  // of the sample's part of the image as displayed
  std::int32_t height = 0;
  std::int32_t canvas_width = 0;  // pixels of it that are here: each side is the smaller of the image's and the place's
  std::int32_t canvas_height = 0;
};
static_assert(sizeof(CanvasInfo) == 16);

// Where a sample goes in a slot.
struct SamplePlace {
  std::span<std::byte> pixels;  // of the sample, or the place of its canvas
  std::span<std::byte> info;    // of its canvas: a CanvasInfo; empty without canvases
  SampleView* view = nullptr;   // what it shows, or, of a canvas, what that holds of its image; null: nobody asks

  SamplePlace() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): without canvases the bytes are the place
  SamplePlace(std::span<std::byte> all_pixels, std::span<std::byte> canvas_info = {},
              SampleView* shown = nullptr) noexcept
      : pixels(all_pixels), info(canvas_info), view(shown) {}
};

// A canvas is at most so many times as large as the result, each way, so that few pixels make one.
constexpr std::int64_t kMostShrink = 8;

// A side of the place of a canvas: as given, or, for 0, 8/7 of the result's rounded up to a multiple of 8: 256 for 224.
// With that the central view of 7/8, the usual one in evaluation, is not resized, and random views that show most of an
// image lose little.
[[nodiscard]] constexpr std::int64_t canvas_side(std::int64_t given, std::int64_t size) noexcept {
  return given > 0 ? given : ((8 * size + 6) / 7 + 7) / 8 * 8;
}

// How canvases lie in a slot: the places of all samples one after the other, then the CanvasInfo of each. A place has
// rows of `width` RGB pixels, of which the first canvas_width of the first canvas_height rows are used; the others hold
// anything. Infos of 16 bytes follow the last place, so whoever reads up to 16 bytes behind a pixel stays within the
// slot.
struct CanvasFormat {
  std::uint32_t batch_size = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;

  // From one row to the next: a multiple of 16, so that all rows are aligned alike.
  [[nodiscard]] constexpr std::size_t row_bytes() const noexcept {
    return (3 * static_cast<std::size_t>(width) + 15) / 16 * 16;
  }
  [[nodiscard]] constexpr std::size_t place_bytes() const noexcept {
    return row_bytes() * static_cast<std::size_t>(height);
  }
  // Where the infos begin: aligned for vectors.
  [[nodiscard]] constexpr std::size_t infos_offset() const noexcept {
    return (place_bytes() * batch_size + 255) / 256 * 256;
  }
  [[nodiscard]] constexpr std::size_t batch_bytes() const noexcept {
    return infos_offset() + batch_size * sizeof(CanvasInfo);
  }
  // REQUIRES: slot.size() >= batch_bytes(); index < batch_size.
  [[nodiscard]] SamplePlace place(std::span<std::byte> slot, std::uint32_t index) const noexcept {
    return {slot.subspan(place_bytes() * index, place_bytes()),
            slot.subspan(infos_offset() + sizeof(CanvasInfo) * index, sizeof(CanvasInfo))};
  }
};

// All that rendering needs to know, in plain numbers, so that it can be copied to a device. Made by
// make_render_plan() (renderers.hpp) from the options.
struct RenderPlan {
  CanvasFormat canvas;
  std::uint32_t views = 1;  // of each canvas
  ViewRule view;            // and the size of one of the result
  PixelRule pixels;         // operations
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  std::uint64_t seed = 0;
  // An element of a type other than uint8 is fma(value, scale, offset) of its channel.
  std::array<float, 3> scale;
  std::array<float, 3> offset;

  [[nodiscard]] constexpr std::size_t sample_bytes() const noexcept {
    return 3 * static_cast<std::size_t>(view.height) * static_cast<std::size_t>(view.width) * size_of(dtype);
  }
};

// One serving of a batch of canvases. It counts in views: those of a canvas follow each other.
struct RenderBatch {
  const std::byte* canvases = nullptr;  // a slot in CanvasFormat, in memory of the device, aligned to 256
  std::uint32_t size = 0;               // RenderPlan::views for each sample
  std::uint64_t epoch = 0;
  std::uint64_t first_position = 0;  // of the first one within the epoch; the others follow
  std::uint64_t use_index = 0;
  std::optional<std::uint32_t> drawn_in = std::nullopt;  // the place of a draw() of this serving that is complete
};

// Makes a tensor of a batch of canvases. What a sample shows depends on (seed, epoch, position, use_index) only, and
// its bytes are the same on every device.
class CanvasRenderer {
 public:
  virtual ~CanvasRenderer() = default;
  // Puts on the stream, ahead of the serving, what render() would have to compute before it begins with the pixels, and
  // keeps it in a place until the next draw() there. `place`: less than what make_renderer() was told. One thread at a
  // time, which need not be that of render(). Throws Error.
  virtual void draw(const RenderBatch& /*batch*/, std::uint32_t /*place*/, StreamView /*stream*/) {}
  // Puts it on the stream (host: does it). `out`: the first element of [size, 3, height, width] or
  // [size, height, width, 3] in memory of the device, aligned to 256. One thread at a time. Throws Error.
  virtual void render(const RenderBatch& batch, std::byte* out, StreamView stream) = 0;
};

}  // namespace forebay::make
