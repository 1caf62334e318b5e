#include "twin_renderer.hpp"

#include <bit>
#include <cstring>
#include <vector>

#include "canvas_math.hpp"

namespace forebay {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored by their low bytes");

std::vector<PixelTaps> taps_of(const ResamplingAxis& axis) {
  std::vector<PixelTaps> all;
  all.reserve(static_cast<std::size_t>(axis.out));
  for (std::int32_t i = 0; i < axis.out; ++i) all.push_back(pixel_taps(axis, i));
  return all;
}

}  // namespace

void TwinRenderer::render(const RenderBatch& batch, std::byte* out, StreamView /*stream*/) {
  for (std::uint32_t i = 0; i < batch.size; ++i) render_one(batch, i, out + i * plan_.sample_bytes());
}

void TwinRenderer::render_one(const RenderBatch& batch, std::uint32_t index, std::byte* out) const {
  const CanvasFormat& format = plan_.canvas;
  const CanvasInfo info = info_of(format, batch.canvases, index);
  const ImageView view = canvas_view(plan_, info, batch.epoch, batch.first_position + index, batch.use_index);
  const auto* const region = reinterpret_cast<const std::uint8_t*>(batch.canvases) + format.place_bytes() * index +
                             static_cast<std::size_t>(view.region.top) * format.row_bytes() +
                             3 * static_cast<std::size_t>(view.region.left);
  const PixelChange change = canvas_change(plan_, batch.epoch, batch.first_position + index, batch.use_index);
  const ResamplingAxis across = resampling_axis(view.region.width(), plan_.view.width);
  const ResamplingAxis down = resampling_axis(view.region.height(), plan_.view.height);
  const auto columns = taps_of(across);
  const auto rows = taps_of(down);
  for (std::int32_t y = 0; y < down.out; ++y) {
    for (std::int32_t x = 0; x < across.out; ++x) {
      const auto column = static_cast<std::size_t>(view.mirror ? across.out - 1 - x : x);
      const auto pixel = view_pixel<PlainWords>(region, format.row_bytes(), columns[column],
                                                rows[static_cast<std::size_t>(y)], mixes_first(down));
      store(changed_pixel(change, x, y, pixel), x, y, out);
    }
  }
}

void TwinRenderer::store(std::uint32_t pixel, std::int32_t x, std::int32_t y, std::byte* sample) const noexcept {
  const auto width = static_cast<std::size_t>(plan_.view.width);
  const auto plane = width * static_cast<std::size_t>(plan_.view.height);
  const std::size_t at = static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const std::uint32_t element = plan_.table[channel][pixel >> (8 * channel) & 0xffU];
    const std::size_t place = plan_.layout == Layout::nchw ? channel * plane + at : 3 * at + channel;
    const std::size_t bytes = size_of(plan_.dtype);
    std::memcpy(sample + place * bytes, &element, bytes);
  }
}

}  // namespace forebay
