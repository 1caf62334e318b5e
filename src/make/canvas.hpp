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

// With transform.when = "dequeue" a slot holds canvases: each sample's whole image, or its box, as bytes, shrunk to fit
// a place of fixed size. Each serving renders them into a tensor, with new views.
namespace forebay::make {

// The description of one canvas.
struct CanvasInfo {
  std::int32_t width = 0;  // size of the sample's part of the image as displayed
  std::int32_t height = 0;
  std::int32_t canvas_width = 0;  // size of the canvas: each side is the smaller of the image's and the place's
  std::int32_t canvas_height = 0;
};
static_assert(sizeof(CanvasInfo) == 16);

// The place of a sample in a slot.
struct SamplePlace {
  std::span<std::byte> pixels;  // of the sample, or the place of its canvas
  std::span<std::byte> info;    // of its canvas: a CanvasInfo; empty without canvases
  SampleView* view = nullptr;   // set to the part of the image that the sample, or canvas, has; may be null

  SamplePlace() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): without canvases the bytes are the place
  SamplePlace(std::span<std::byte> all_pixels, std::span<std::byte> canvas_info = {},
              SampleView* shown = nullptr) noexcept
      : pixels(all_pixels), info(canvas_info), view(shown) {}
};

// A canvas is at most this many times as large as the result along each axis, which bounds the pixels that make one.
constexpr std::int64_t kMostShrink = 8;

// A side of a canvas's place: as given, or, for 0, 8/7 of the result's side rounded up to a multiple of 8: 256 for 224.
// Then the central view of 7/8, usual in evaluation, is not resized, and random views that show most of an image lose
// little.
[[nodiscard]] constexpr std::int64_t canvas_side(std::int64_t given, std::int64_t size) noexcept {
  return given > 0 ? given : ((8 * size + 6) / 7 + 7) / 8 * 8;
}

// The layout of canvases in a slot: the places of all samples, then the CanvasInfo of each. A place has rows of `width`
// RGB pixels, of which the first canvas_width of the first canvas_height rows are used; the rest is unspecified. The
// 16-byte infos follow the last place, so reading up to 16 bytes past a pixel stays within the slot.
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

// All parameters of rendering as plain numbers, so that they can be copied to a device. Made by make_render_plan()
// (renderers.hpp) from the options.
struct RenderPlan {
  CanvasFormat canvas;
  std::uint32_t views = 1;  // per canvas
  ViewRule view;            // includes the size of the result
  PixelRule pixels;         // operations
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  std::uint64_t seed = 0;
  // An element of a type other than uint8 is fma(value, scale, offset), with its channel's scale and offset.
  std::array<float, 3> scale;
  std::array<float, 3> offset;

  [[nodiscard]] constexpr std::size_t sample_bytes() const noexcept {
    return 3 * static_cast<std::size_t>(view.height) * static_cast<std::size_t>(view.width) * size_of(dtype);
  }
};

// One serving of a batch of canvases. Its numbers count views; those of a canvas are consecutive.
struct RenderBatch {
  const std::byte* canvases = nullptr;  // a slot in CanvasFormat, in memory of the device, aligned to 256
  std::uint32_t size = 0;               // RenderPlan::views for each sample
  std::uint64_t epoch = 0;
  std::uint64_t first_position = 0;  // that of the first sample within the epoch; the others follow
  std::uint64_t use_index = 0;
  std::optional<std::uint32_t> drawn_in = std::nullopt;  // the place of a completed draw() for this serving
};

// Renders a batch of canvases into a tensor. The view of a sample depends only on (seed, epoch, position, use_index),
// and its bytes are the same on every device.
class CanvasRenderer {
 public:
  virtual ~CanvasRenderer() = default;
  // Queues on the stream, ahead of the serving, what render() must compute before it starts on the pixels, and keeps
  // the result in a place until the next draw() there. `place`: less than the number given to make_renderer(). One
  // thread at a time, which need not be that of render(). Throws Error.
  virtual void draw(const RenderBatch& /*batch*/, std::uint32_t /*place*/, StreamView /*stream*/) {}
  // Queues the rendering on the stream (host: performs it). `out`: the first element of [size, 3, height, width] or
  // [size, height, width, 3] in device memory, aligned to 256. One thread at a time. Throws Error.
  virtual void render(const RenderBatch& batch, std::byte* out, StreamView stream) = 0;
};

}  // namespace forebay::make
