// Renders canvases into tensors, once per serving, on the trainer's thread, with the vector kernels.
// Tests compare the bytes of this renderer and of devices, real or fake, with a renderer that goes
// pixel by pixel (tests/twin_renderer.hpp), so a device can be trusted to show what the host shows.
// What a serving shows depends only on seed, epoch, position and use.

#include "renderers.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "canvas_math.hpp"
#include "conversion.hpp"
#include "operation_chain.hpp"
#include "transform.hpp"

namespace forebay::make {
namespace {

std::int64_t checked_side(std::int64_t given, std::int64_t size) {
  const std::int64_t side = canvas_side(given, size);
  if (given < 0 || side > kMostShrink * size) {
    throw ConfigError("transform.canvas: a side of " + std::to_string(given) + " does not go with one of " +
                      std::to_string(size) + " in transform.size; it must be 1 to 8 times that many, or 0");
  }
  return side;
}

}  // namespace

CanvasFormat canvas_format(const TransformOptions& options, std::uint32_t batch_size) {
  const auto& size = checked(options).size;
  return {.batch_size = batch_size,
          .height = checked_side(options.canvas[0], size[0]),
          .width = checked_side(options.canvas[1], size[1])};
}

RenderPlan make_render_plan(const TransformOptions& options, std::uint64_t seed, bool eval, std::uint32_t batch_size,
                            const OperationChain& operations, std::uint32_t views) {
  const Conversion conversion = conversion_of(options, false);
  return {.canvas = canvas_format(options, batch_size),
          .views = views,
          .view = view_rule(options, eval),
          .pixels = operations.pixels(),
          .dtype = options.dtype,
          .layout = options.layout,
          .seed = seed,
          .scale = conversion.scale,
          .offset = conversion.offset};
}

HostRenderer::HostRenderer(const TransformOptions& options, const RenderPlan& plan, const Kernels& kernels)
    : plan_(plan),
      conversion_(
          conversion_of(options, Transform::stores_for(options, std::uint64_t{plan.canvas.batch_size} * plan.views) ==
                                     Transform::Stores::streaming)),
      convert_(trusted_convert(kernels, conversion_)),
      recolour_(kernels.recolour),
      resizer_(kernels),
      changed_row_(static_cast<std::size_t>(plan.view.width) * kPixelBytes) {}

// Streaming stores are weakly ordered; one fence per batch, before the lease is handed out, is
// enough.
void HostRenderer::render(const RenderBatch& batch, std::byte* out, StreamView /*stream*/) {
  const std::size_t step = plan_.sample_bytes();
  if (plan_.pixels.any()) {
    for (std::uint32_t i = 0; i < batch.size; ++i) render_changed(batch, i, out + i * step);
  } else {
    for (std::uint32_t i = 0; i < batch.size; ++i) render_one(batch, i, out + i * step);
  }
  if (conversion_.stream) finish_streaming();
}

void HostRenderer::begin(const RenderBatch& batch, std::uint32_t index) {
  const CanvasFormat& format = plan_.canvas;
  const std::uint32_t canvas = index / plan_.views;
  const CanvasInfo info = info_of(format, batch.canvases, canvas);
  const ImageView view = canvas_view(plan_, info, batch.epoch, batch.first_position + index, batch.use_index);
  const auto* const slot = reinterpret_cast<const std::uint8_t*>(batch.canvases);
  resizer_.begin(PixelRows{.first = slot + format.place_bytes() * canvas,
                           .row_bytes = format.row_bytes(),
                           .end = slot + format.batch_bytes()},
                 view.region, plan_.view.width, plan_.view.height, view.mirror);
}

template <class RowAt>
void HostRenderer::write(std::byte* out, const RowAt& row_at) const {
  const std::size_t step =
      conversion_.width * (conversion_.layout == Layout::nchw ? 1 : 3) * size_of(conversion_.dtype);
  for (std::int32_t y = 0; y < plan_.view.height; ++y, out += step) convert_(row_at(y), conversion_, out);
}

void HostRenderer::render_one(const RenderBatch& batch, std::uint32_t index, std::byte* out) {
  begin(batch, index);
  write(out, [this](std::int32_t y) { return resizer_.row(y); });
}

// Colour and erase are applied to each row on its way, as when samples are decoded.
void HostRenderer::render_changed(const RenderBatch& batch, std::uint32_t index, std::byte* out) {
  begin(batch, index);
  const PixelChange change = canvas_change(plan_, batch.epoch, batch.first_position + index, batch.use_index);
  const RowChanger changer(change, recolour_, static_cast<std::size_t>(plan_.view.width));
  write(out, [&](std::int32_t y) {
    const std::uint8_t* const row = resizer_.row(y);
    if (!changer.changes(y)) return row;
    changer.change(y, row, changed_row_.data());
    return static_cast<const std::uint8_t*>(changed_row_.data());
  });
}

}  // namespace forebay::make
