#include "host_renderer.hpp"

#include "canvas_math.hpp"
#include "conversion.hpp"
#include "render_plan.hpp"
#include "transform.hpp"

namespace forebay {

HostRenderer::HostRenderer(const TransformOptions& options, std::uint64_t seed, bool eval, std::uint32_t batch_size,
                           const Kernels& kernels)
    : plan_(make_render_plan(options, seed, eval, batch_size)),
      conversion_(conversion_of(options, Transform::stores_for(options, batch_size) == Transform::Stores::streaming)),
      convert_(trusted_convert(kernels, conversion_)),
      resizer_(kernels) {}

void HostRenderer::render(const RenderBatch& batch, std::byte* out, StreamView /*stream*/) {
  for (std::uint32_t i = 0; i < batch.size; ++i, out += plan_.sample_bytes()) render_one(batch, i, out);
  if (conversion_.stream) finish_streaming();
}

void HostRenderer::render_one(const RenderBatch& batch, std::uint32_t index, std::byte* out) {
  const CanvasFormat& format = plan_.canvas;
  const CanvasInfo info = info_of(format, batch.canvases, index);
  const ImageView view = canvas_view(plan_, info, batch.epoch, batch.first_position + index, batch.use_index);
  const auto* const slot = reinterpret_cast<const std::uint8_t*>(batch.canvases);
  resizer_.begin(PixelRows{.first = slot + format.place_bytes() * index,
                           .row_bytes = format.row_bytes(),
                           .end = slot + format.batch_bytes()},
                 view.region, plan_.view.width, plan_.view.height, view.mirror);
  const std::size_t step =
      conversion_.width * (conversion_.layout == Layout::nchw ? 1 : 3) * size_of(conversion_.dtype);
  for (std::int32_t y = 0; y < plan_.view.height; ++y, out += step) convert_(resizer_.row(y), conversion_, out);
}

}  // namespace forebay
