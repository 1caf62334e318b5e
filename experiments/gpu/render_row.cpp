#include <cstdio>

#include <forebay/options.hpp>

#include "assemble/render_plan.hpp"
#include "canvases.hpp"
#include "hot_path/measure.hpp"

namespace forebay::gpu_check {
namespace {

using bench::Figure;

constexpr double kWantedShare = 0.7;

}  // namespace

Row render_row(const Setup& setup) {
  const std::uint32_t batch_size = setup.quick ? 4 : 256;
  const int rounds = setup.quick ? 3 : 40;
  const std::unique_ptr<Device> device = open_device(setup);
  TransformOptions options;
  options.dtype = DType::float16;
  options.when = When::dequeue;
  // All of every canvas is read, so that the bytes are known.
  options.crop = Crop::none;
  const RenderPlan plan = make_render_plan(options, 17, false, batch_size);
  std::vector<std::byte> slot = noise_canvases(plan.canvas, 1, 1);
  const auto width = static_cast<std::int32_t>(plan.canvas.width);
  const auto height = static_cast<std::int32_t>(plan.canvas.height);
  const CanvasInfo whole{.width = width, .height = height, .canvas_width = width, .canvas_height = height};
  for (std::uint32_t i = 0; i < batch_size; ++i) {
    std::memcpy(slot.data() + plan.canvas.infos_offset() + i * sizeof(whole), &whole, sizeof(whole));
  }
  const auto memory = upload(*device, slot);
  const auto renderer = device->make_renderer(plan);
  const std::size_t written = plan.sample_bytes() * batch_size;
  const std::size_t read = plan.canvas.place_bytes() * batch_size;
  const auto out = device->allocate(written);
  // A copy reads and writes what it copies.
  const std::size_t copied = (read + written) / 2;
  const GpuMemory from = gpu_memory(copied);
  const GpuMemory to = gpu_memory(copied);
  const TrainerStream stream;
  Stopwatch watch(stream.get());

  Figure rendering;
  Figure copying;
  for (int round = -3; round < rounds; ++round) {
    watch.begin();
    require(cudaMemcpyAsync(to.get(), from.get(), copied, cudaMemcpyDeviceToDevice, stream.get()), "cudaMemcpyAsync");
    const double copy_ms = watch.end_ms();
    watch.begin();
    renderer->render(
        {.canvases = memory->bytes().data(), .size = batch_size, .use_index = static_cast<std::uint64_t>(round + 3)},
        out->bytes().data(), stream.view());
    const double ms = watch.end_ms();
    if (round < 0) continue;
    copying.rounds.push_back(static_cast<double>(read + written) / copy_ms / 1e6);
    rendering.rounds.push_back(static_cast<double>(read + written) / ms / 1e6);
  }
  const double share = rendering.median() / copying.median();
  char text[200];
  std::snprintf(
      text, sizeof(text), "%.0f GB/s; device copy %.0f GB/s; %.0f %% of it (%u x %d x %d uint8 -> %d x %d float16)",
      rendering.median(), copying.median(), 100 * share, batch_size, height, width, plan.view.height, plan.view.width);
  return {.subject = "fused kernel",
          .found = text,
          .wanted = ">= 70 %",
          .verdict = share >= kWantedShare ? Verdict::fine : Verdict::missed};
}

}  // namespace forebay::gpu_check
