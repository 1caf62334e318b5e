#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <forebay/options.hpp>

#include "canvas.hpp"
#include "conversion.hpp"
#include "kernels.hpp"
#include "operation_chain.hpp"
#include "resizer.hpp"

namespace forebay::make {

// The layout of canvases in a slot of `batch_size` samples with these options. Throws ConfigError
// for options that cannot be honoured. Any thread may call.
[[nodiscard]] CanvasFormat canvas_format(const TransformOptions& options, std::uint32_t batch_size);

// The parameters of a renderer. `eval`: no mirroring, and central instead of random views.
// `operations`: replace the built-in ones named in the options; can_render_later() must hold. `views`:
// views per canvas. Throws ConfigError likewise.
[[nodiscard]] RenderPlan make_render_plan(const TransformOptions& options, std::uint64_t seed, bool eval,
                                          std::uint32_t batch_size, const OperationChain& operations,
                                          std::uint32_t views = 1);

// Renders canvases on the calling thread, row by row with the vector kernels, into host memory;
// ignores the stream. No longer allocates once it has rendered its largest views.
class HostRenderer final : public CanvasRenderer {
 public:
  // `plan` must have been made from the same options. `kernels` must outlive this; all kernels give the same bytes.
  HostRenderer(const TransformOptions& options, const RenderPlan& plan, const Kernels& kernels = best_kernels());

  void render(const RenderBatch& batch, std::byte* out, StreamView stream) override;

 private:
  void render_one(const RenderBatch& batch, std::uint32_t index, std::byte* out);
  void render_changed(const RenderBatch& batch, std::uint32_t index, std::byte* out);
  // Prepares the resizer for a sample.
  void begin(const RenderBatch& batch, std::uint32_t index);
  template <class RowAt>
  void write(std::byte* out, const RowAt& row_at) const;

  RenderPlan plan_;
  Conversion conversion_;
  decltype(Kernels::convert) convert_;
  decltype(Kernels::recolour) recolour_;
  Resizer resizer_;
  std::vector<std::uint8_t> changed_row_;
};

}  // namespace forebay::make
