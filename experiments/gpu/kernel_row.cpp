#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <forebay/options.hpp>

#include "assemble/render_plan.hpp"
#include "assemble/twin_renderer.hpp"
#include "canvases.hpp"

namespace forebay::gpu_check {
namespace {

struct Tally {
  std::size_t cases = 0;
  std::size_t bytes = 0;
  std::size_t different = 0;
};

// Three servings of one batch.
void compare(Device& device, const TransformOptions& options, std::uint32_t batch_size, Tally& tally) {
  constexpr std::uint64_t kSeed = 17;
  const RenderPlan plan = make_render_plan(options, kSeed, false, batch_size);
  const std::vector<std::byte> slot = noise_canvases(plan.canvas, 600, tally.cases + 1);
  const auto memory = upload(device, slot);
  const auto renderer = device.make_renderer(plan);
  const std::size_t bytes = plan.sample_bytes() * batch_size;
  const auto out = device.allocate(bytes);
  const StreamView stream = device.make_stream();
  TwinRenderer twin(plan);
  std::vector<std::byte> expected(bytes);
  std::vector<std::byte> found(bytes);
  for (std::uint64_t use = 0; use < 3; ++use) {
    RenderBatch batch{
        .canvases = slot.data(), .size = batch_size, .epoch = 2, .first_position = 1000, .use_index = use};
    twin.render(batch, expected.data(), {});
    batch.canvases = memory->bytes().data();
    renderer->render(batch, out->bytes().data(), stream);
    device.copy_out(found.data(), out->bytes().data(), bytes, stream);
    for (std::size_t i = 0; i < bytes; ++i) tally.different += found[i] != expected[i] ? 1 : 0;
    tally.bytes += bytes;
  }
  ++tally.cases;
}

}  // namespace

Row kernel_row(const Setup& setup) {
  constexpr std::array<std::array<std::int64_t, 2>, 5> kSizes{{{224, 224}, {1, 1}, {7, 13}, {33, 64}, {96, 160}}};
  const std::unique_ptr<Device> device = open_device(setup);
  Tally tally;
  for (const auto& size : kSizes) {
    if (setup.quick && size[0] > 40) continue;
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::uint8}) {
      for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
        for (const Crop crop : {Crop::random_resized, Crop::center, Crop::none}) {
          TransformOptions options;
          options.size = size;
          options.dtype = dtype;
          options.layout = layout;
          options.crop = crop;
          options.when = When::dequeue;
          compare(*device, options, size[0] > 40 ? 4 : 9, tally);
        }
      }
    }
  }
  return {.subject = "kernels against the host's twin",
          .found = std::to_string(tally.different) + " bytes differ of " + std::to_string(tally.bytes) + " in " +
                   std::to_string(tally.cases) + " cases",
          .wanted = "0",
          .verdict = tally.different == 0 ? Verdict::fine : Verdict::wrong};
}

}  // namespace forebay::gpu_check
