#include "host_renderer.hpp"

#include "canvas_math.hpp"
#include "conversion.hpp"
#include "render_plan.hpp"
#include "row_changer.hpp"
#include "transform.hpp"

namespace forebay {

HostRenderer::HostRenderer(const TransformOptions& options, std::uint64_t seed, bool eval, std::uint32_t batch_size,
                           const Kernels& kernels)
    : HostRenderer(options, make_render_plan(options, seed, eval, batch_size), kernels) {}

HostRenderer::HostRenderer(const TransformOptions& options, const RenderPlan& plan, const Kernels& kernels)
    : plan_(plan),
      conversion_(conversion_of(
          options, Transform::stores_for(options, plan.canvas.batch_size) == Transform::Stores::streaming)),
      convert_(trusted_convert(kernels, conversion_)),
      recolour_(kernels.recolour),
      resizer_(kernels),
      changed_row_(static_cast<std::size_t>(plan.view.width) * kPixelBytes) {}

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
  const CanvasInfo info = info_of(format, batch.canvases, index);
  const ImageView view = canvas_view(plan_, info, batch.epoch, batch.first_position + index, batch.use_index);
  const auto* const slot = reinterpret_cast<const std::uint8_t*>(batch.canvases);
  resizer_.begin(PixelRows{.first = slot + format.place_bytes() * index,
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

}  // namespace forebay
