#pragma once

#include <cstdint>

#include <forebay/options.hpp>

#include "canvas.hpp"
#include "operation_chain.hpp"

namespace forebay {

// How canvases of these options lie in a slot of `batch_size` samples. Throws ConfigError for options that cannot be
// honoured. Any thread may call.
[[nodiscard]] CanvasFormat canvas_format(const TransformOptions& options, std::uint32_t batch_size);

// What a renderer has to know. `eval` turns mirroring off and random views into central ones. Throws likewise.
// `operations`: in place of the built-in ones that the options name; they have twins.
[[nodiscard]] RenderPlan make_render_plan(const TransformOptions& options, std::uint64_t seed, bool eval,
                                          std::uint32_t batch_size, const OperationChain& operations);
[[nodiscard]] inline RenderPlan make_render_plan(const TransformOptions& options, std::uint64_t seed, bool eval,
                                                 std::uint32_t batch_size) {
  return make_render_plan(options, seed, eval, batch_size, builtin_operations(options, eval));
}

}  // namespace forebay
