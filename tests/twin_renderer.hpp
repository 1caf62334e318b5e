#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "make/canvas.hpp"
#include "make/canvas_math.hpp"
#include "make/conversion.hpp"
#include "make/operation_chain.hpp"
#include "make/renderers.hpp"

namespace forebay::testing {

// The plan of a run whose options name built-in operations.
inline make::RenderPlan render_plan(const TransformOptions& options, std::uint64_t seed, bool eval,
                                    std::uint32_t batch_size) {
  const make::OperationChain operations(OperationRegistry::builtin(), options, eval);
  return make::make_render_plan(options, seed, eval, batch_size, operations);
}

// A weighted mean of words, taken byte by byte and rounded to nearest.
class WordMix {
 public:
  explicit WordMix(std::int32_t precision) noexcept : precision_(precision) { sums_.fill(1U << (precision - 1)); }
  // Adds `first`, weighted by the lower half of `pair`, and `second`, weighted by the upper half.
  void add(std::uint32_t first, std::uint32_t second, std::uint32_t pair) noexcept {
    for (std::uint32_t i = 0; i < 4; ++i) {
      sums_[i] += (first >> (8 * i) & 0xffU) * (pair & 0xffffU) + (second >> (8 * i) & 0xffU) * (pair >> 16U);
    }
  }
  [[nodiscard]] std::uint32_t word() const noexcept {
    std::uint32_t word = 0;
    for (std::uint32_t i = 0; i < 4; ++i) word |= (sums_[i] >> precision_) << (8 * i);
    return word;
  }

 private:
  std::int32_t precision_;
  std::array<std::uint32_t, 4> sums_;
};

// The definition of a serving, pixel by pixel, by which the host's and the devices' renderers are tested; slow. What it
// shares with them is what the plan draws (canvas_math.hpp), the coefficients, and how elements are stored.
class TwinRenderer final : public make::CanvasRenderer {
 public:
  explicit TwinRenderer(const make::RenderPlan& plan) noexcept
      : plan_(plan), table_(make::element_table(plan.scale, plan.offset, plan.dtype)) {}

  void render(const make::RenderBatch& batch, std::byte* out, StreamView /*stream*/) override {
    for (std::uint32_t i = 0; i < batch.size; ++i) render_one(batch, i, out + i * plan_.sample_bytes());
  }

 private:
  static_assert(std::endian::native == std::endian::little, "elements are stored by their low bytes");

  void render_one(const make::RenderBatch& batch, std::uint32_t index, std::byte* out) const {
    const make::CanvasFormat& format = plan_.canvas;
    const std::uint32_t canvas = index / plan_.views;
    const std::uint64_t position = batch.first_position + index;
    const make::CanvasInfo info = make::info_of(format, batch.canvases, canvas);
    const make::ImageView view = make::canvas_view(plan_, info, batch.epoch, position, batch.use_index);
    const make::PixelChange change = make::canvas_change(plan_, batch.epoch, position, batch.use_index);
    const std::size_t row_bytes = format.row_bytes();
    const auto* const region = reinterpret_cast<const std::uint8_t*>(batch.canvases) + format.place_bytes() * canvas +
                               static_cast<std::size_t>(view.region.top) * row_bytes +
                               3 * static_cast<std::size_t>(view.region.left);
    const make::ResamplingAxis across = make::resampling_axis(view.region.width(), plan_.view.width);
    const make::ResamplingAxis down = make::resampling_axis(view.region.height(), plan_.view.height);
    const auto columns = taps_of(across);
    const auto rows = taps_of(down);
    for (std::int32_t y = 0; y < down.out; ++y) {
      for (std::int32_t x = 0; x < across.out; ++x) {
        const auto column = static_cast<std::size_t>(view.mirror ? across.out - 1 - x : x);
        const auto pixel =
            view_pixel(region, row_bytes, columns[column], rows[static_cast<std::size_t>(y)], make::mixes_first(down));
        store(make::changed_pixel(change, x, y, pixel), x, y, out);
      }
    }
  }

  // Computed once per sample and axis instead of once per pixel.
  static std::vector<make::PixelTaps> taps_of(const make::ResamplingAxis& axis) {
    std::vector<make::PixelTaps> all;
    for (std::int32_t i = 0; i < axis.out; ++i) all.push_back(make::pixel_taps(axis, i));
    return all;
  }

  // The weighted mean along a line of pixels or words. at(t) returns the word that coefficient t weighs.
  template <class At>
  static std::uint32_t mixed(const make::PixelTaps& taps, const At& at) noexcept {
    WordMix mix(taps.precision);
    for (std::int32_t t = 0; t < taps.taps; t += 2) {
      mix.add(at(t), t + 1 < taps.taps ? at(t + 1) : 0, taps.pair(t / 2));
    }
    return mix.word();
  }

  // One pixel of the result. The first row of the view's region is at `region`; rows are row_bytes apart.
  static std::uint32_t view_pixel(const std::uint8_t* region, std::size_t row_bytes, const make::PixelTaps& column,
                                  const make::PixelTaps& row, bool mix_first) noexcept {
    const auto pixel_at = [&](std::int32_t x, std::int32_t y) {
      const std::int32_t offset = 3 * (column.first + x);
      const std::uint8_t* const at = region + static_cast<std::size_t>(row.first + y) * row_bytes + offset;
      return std::uint32_t{at[0]} | std::uint32_t{at[1]} << 8U | std::uint32_t{at[2]} << 16U;
    };
    if (mix_first) {
      return mixed(column, [&](std::int32_t x) { return mixed(row, [&](std::int32_t y) { return pixel_at(x, y); }); });
    }
    return mixed(row, [&](std::int32_t y) { return mixed(column, [&](std::int32_t x) { return pixel_at(x, y); }); });
  }

  void store(std::uint32_t pixel, std::int32_t x, std::int32_t y, std::byte* sample) const noexcept {
    const auto width = static_cast<std::size_t>(plan_.view.width);
    const auto plane = width * static_cast<std::size_t>(plan_.view.height);
    const std::size_t at = static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const std::uint32_t element = table_[channel][pixel >> (8 * channel) & 0xffU];
      const std::size_t place = plan_.layout == Layout::nchw ? channel * plane + at : 3 * at + channel;
      const std::size_t bytes = size_of(plan_.dtype);
      std::memcpy(sample + place * bytes, &element, bytes);
    }
  }

  make::RenderPlan plan_;
  make::Conversion::Table table_;
};

}  // namespace forebay::testing
