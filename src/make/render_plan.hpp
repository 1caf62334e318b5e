#pragma once

#include <cstdint>

#include <forebay/options.hpp>

#include "canvas.hpp"

namespace forebay {

// How canvases of these options lie in a slot of `batch_size` samples. Throws ConfigError for options that cannot be
// honoured. Any thread may call.
[[nodiscard]] CanvasFormat canvas_format(const TransformOptions& options, std::uint32_t batch_size);

// What a renderer has to know. `eval` turns mirroring off and random views into central ones. Throws likewise.
[[nodiscard]] RenderPlan make_render_plan(const TransformOptions& options, std::uint64_t seed, bool eval,
                                          std::uint32_t batch_size);

}  // namespace forebay
