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

// With transform.when = "dequeue" a slot holds canvases: each sample's whole image, or its box, as
// bytes, shrunk to fit a place of fixed size. Each serving renders them into a tensor, with newly
// drawn views.
namespace forebay::make {

// The size of one canvas and of the image part that it shows.
struct CanvasInfo {
  std::int32_t width = 0;  // the sample's part of the image as displayed, in pixels
  std::int32_t height = 0;
  std::int32_t canvas_width = 0;  // each side is the smaller of the part's and the place's
  std::int32_t canvas_height = 0;
};
static_assert(sizeof(CanvasInfo) == 16);

// Where a sample is stored in its slot.
struct SamplePlace {
  std::span<std::byte> pixels;  // the sample's pixels, or the place for its canvas
  std::span<std::byte> info;    // the CanvasInfo of its canvas; empty without canvases
  SampleView* view = nullptr;   // receives the part of the image that is shown; may be null

  SamplePlace() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): without canvases the bytes are the place
  SamplePlace(std::span<std::byte> all_pixels, std::span<std::byte> canvas_info = {},
              SampleView* shown = nullptr) noexcept
      : pixels(all_pixels), info(canvas_info), view(shown) {}
};

// A canvas is at most this many times as large as the result along each axis. That bounds the
// number of taps per pixel.
constexpr std::int64_t kMostShrink = 8;

// One side of the place of a canvas: `given`, or, if that is 0, 8/7 of the result's side rounded up
// to a multiple of 8 (256 for 224). Then the central view of 7/8 that is usual in evaluation needs
// no resizing, and random views that show most of an image lose little.
[[nodiscard]] constexpr std::int64_t canvas_side(std::int64_t given, std::int64_t size) noexcept {
  return given > 0 ? given : ((8 * size + 6) / 7 + 7) / 8 * 8;
}

// The layout of canvases in a slot: the places of all samples, then one CanvasInfo for each. A
// place has rows of `width` RGB pixels. A canvas uses the first canvas_width pixels of the first
// canvas_height rows; the rest is unspecified. The 16-byte infos follow the last place, so reading
// up to 16 bytes past a pixel stays within the slot.
struct CanvasFormat {
  std::uint32_t batch_size = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;

  // The stride of rows: a multiple of 16, so that all rows are equally aligned.
  [[nodiscard]] constexpr std::size_t row_bytes() const noexcept {
    return (3 * static_cast<std::size_t>(width) + 15) / 16 * 16;
  }
  [[nodiscard]] constexpr std::size_t place_bytes() const noexcept {
    return row_bytes() * static_cast<std::size_t>(height);
  }
  // The offset of the infos, aligned for vector loads.
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

// All parameters of rendering as plain numbers, so that they can be copied to a device.
// make_render_plan() (renderers.hpp) computes them from the options.
struct RenderPlan {
  CanvasFormat canvas;
  std::uint32_t views = 1;  // per canvas
  ViewRule view;            // includes the size of the result
  PixelRule pixels;         // the operations
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  std::uint64_t seed = 0;
  // An element of a type other than uint8 is fma(value, scale, offset), with the scale and offset
  // of its channel.
  std::array<float, 3> scale;
  std::array<float, 3> offset;

  [[nodiscard]] constexpr std::size_t sample_bytes() const noexcept {
    return 3 * static_cast<std::size_t>(view.height) * static_cast<std::size_t>(view.width) * size_of(dtype);
  }
};

// One serving of a batch of canvases. Sizes and positions count views; the views of one canvas are
// consecutive.
struct RenderBatch {
  const std::byte* canvases = nullptr;  // a slot of CanvasFormat in device memory, aligned to 256
  std::uint32_t size = 0;               // number of views: RenderPlan::views for each sample
  std::uint64_t epoch = 0;
  std::uint64_t first_position = 0;  // position of the first view in the epoch; the others follow
  std::uint64_t use_index = 0;
  std::optional<std::uint32_t> drawn_in = std::nullopt;  // the place given to its draw(), if any
};

// Renders a batch of canvases into a tensor. The view of a sample depends only on (seed, epoch, position, use_index),
// and its bytes are the same on every device.
class CanvasRenderer {
 public:
  virtual ~CanvasRenderer() = default;
  // Queues on the stream what render() needs before it starts on the pixels (the drawn views),
  // ahead of the serving. The result stays in `place`, which is less than the number given to
  // make_renderer(), until the next draw() there. One thread at a time, not necessarily the thread
  // of render(). Throws Error.
  virtual void draw(const RenderBatch& /*batch*/, std::uint32_t /*place*/, StreamView /*stream*/) {}
  // Queues the rendering on the stream; on the host it renders at once. `out`: [size, 3, height,
  // width] or [size, height, width, 3] in device memory, aligned to 256. One thread at a time.
  // Throws Error.
  virtual void render(const RenderBatch& batch, std::byte* out, StreamView stream) = 0;
};

}  // namespace forebay::make
