#include "render_plan.hpp"

#include <cstddef>
#include <string>

#include <forebay/error.hpp>

#include "conversion.hpp"

namespace forebay {
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
                            const OperationChain& operations) {
  return {.canvas = canvas_format(options, batch_size),
          .view = view_rule(options, eval),
          .pixels = operations.pixels(),
          .dtype = options.dtype,
          .layout = options.layout,
          .seed = seed,
          .table = conversion_of(options, false).table};
}

}  // namespace forebay
