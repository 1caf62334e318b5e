#pragma once

#include <cstddef>
#include <cstdint>

#include "canvas.hpp"

namespace forebay {

// What a serving is, said plainly: the pixel function that devices are compiled from, called for one pixel after the
// other. For tests, of other renderers and of what a device made; slow.
class TwinRenderer final : public CanvasRenderer {
 public:
  explicit TwinRenderer(const RenderPlan& plan) noexcept : plan_(plan) {}

  void render(const RenderBatch& batch, std::byte* out, StreamView stream) override;

 private:
  void render_one(const RenderBatch& batch, std::uint32_t index, std::byte* out) const;
  void store(std::uint32_t pixel, std::int32_t x, std::int32_t y, std::byte* sample) const noexcept;

  RenderPlan plan_;
};

}  // namespace forebay
