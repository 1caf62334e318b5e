#include <cstdio>
#include <memory>
#include <vector>

#include <forebay/options.hpp>

#include "canvases.hpp"
#include "gpu.hpp"
#include "make/canvas_math.hpp"
#include "twin_renderer.hpp"

using namespace forebay::device;
using namespace forebay::make;

namespace forebay::gpu_check {
namespace {

constexpr double kWantedShare = 0.7;
constexpr std::uint64_t kSeed = 17;

// Canvases on the device and what makes float16 tensors of them. All of a canvas is read with Crop::none; the views of
// random-resized crops are mostly smaller than the result.
class Rendering {
 public:
  Rendering(Device& device, std::uint32_t batch_size, Crop crop, Pixels pixels, TransformOptions options = float16())
      : plan_(testing::render_plan(with(crop, options), kSeed, false, batch_size)) {
    const std::vector<std::byte> slot = full_canvases(plan_.canvas, pixels, kSeed);
    for (std::uint32_t i = 0; i < batch_size; ++i) {
      const Box region = canvas_view(plan_, info_of(plan_.canvas, slot.data(), i), 0, i, 0).region;
      bytes_ += 3 * static_cast<std::size_t>(region.width()) * static_cast<std::size_t>(region.height());
      if (region.height() <= plan_.view.height) ++enlarged_;
    }
    bytes_ += plan_.sample_bytes() * batch_size;
    canvases_ = upload(device, slot);
    out_ = device.allocate(plan_.sample_bytes() * batch_size);
    renderer_ = device.make_renderer(plan_, 1);
    serving_ = {.canvases = canvases_->bytes().data(), .size = plan_.canvas.batch_size};
    const StreamView stream = device.make_stream();
    draw(stream);
    const DeviceEvent drawn = device.make_event();
    device.record(drawn, stream);
    device.synchronize(drawn);
  }

  // Of views that were drawn when the batch was copied, as a first use is served.
  void render(StreamView stream) {
    RenderBatch drawn = serving_;
    drawn.drawn_in = 0;
    renderer_->render(drawn, out_->bytes().data(), stream);
  }
  // As a reuse is served.
  void draw_and_render(StreamView stream) { renderer_->render(serving_, out_->bytes().data(), stream); }
  void draw(StreamView stream) { renderer_->draw(serving_, 0, stream); }
  [[nodiscard]] const RenderPlan& plan() const noexcept { return plan_; }
  // That are read of the views, each pixel once, and written.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  // Views with no more rows than the result, as a share.
  [[nodiscard]] double enlarged() const noexcept { return enlarged_ / static_cast<double>(plan_.canvas.batch_size); }

 private:
  static TransformOptions float16() {
    TransformOptions options;
    options.dtype = DType::float16;
    return options;
  }
  static TransformOptions with(Crop crop, TransformOptions options) {
    options.when = When::dequeue;
    options.crop = crop;
    return options;
  }

  RenderPlan plan_;
  std::size_t bytes_ = 0;
  double enlarged_ = 0;
  std::unique_ptr<Arena> canvases_;
  std::unique_ptr<Arena> out_;
  std::unique_ptr<CanvasRenderer> renderer_;
  RenderBatch serving_;
};

double gigabytes_per_s(std::size_t bytes, const bench::Figure& ms) {
  return static_cast<double>(bytes) / ms.median() / 1e6;
}

}  // namespace

Row render_row(const Setup& setup) {
  const std::uint32_t batch_size = setup.quick ? 2 : 256;
  const Rounds rounds = setup.quick ? Rounds{.timed = 1, .repeats = 2} : Rounds{};
  const std::unique_ptr<Device> device = open_device(setup);
  Rendering noise(*device, batch_size, Crop::none, Pixels::noise);
  Rendering smooth(*device, batch_size, Crop::none, Pixels::smooth);
  Rendering noise_crops(*device, batch_size, Crop::random_resized, Pixels::noise);
  Rendering smooth_crops(*device, batch_size, Crop::random_resized, Pixels::smooth);
  TransformOptions floats;
  TransformOptions bytes;
  bytes.dtype = DType::uint8;
  TransformOptions pixels;
  pixels.dtype = DType::float16;
  pixels.layout = Layout::nhwc;
  TransformOptions odd;
  odd.dtype = DType::float16;
  odd.size = {299, 299};
  Rendering others[]{{*device, batch_size, Crop::none, Pixels::noise, floats},
                     {*device, batch_size, Crop::none, Pixels::noise, bytes},
                     {*device, batch_size, Crop::none, Pixels::noise, pixels},
                     {*device, batch_size, Crop::none, Pixels::noise, odd}};
  // A copy reads and writes what it copies.
  const std::size_t copied = noise.bytes() / 2;
  const GpuMemory from = gpu_memory(copied);
  const GpuMemory to = gpu_memory(copied);

  const TrainerStream stream;
  std::vector<GpuWork> works{
      {.stream = stream.get(), .enqueue = [&] {
         require(cudaMemcpyAsync(to.get(), from.get(), copied, cudaMemcpyDeviceToDevice, stream.get()),
                 "cudaMemcpyAsync");
       }}};
  for (Rendering* const rendering : {&noise, &smooth, &noise_crops, &smooth_crops}) {
    works.push_back({.stream = stream.get(), .enqueue = [&stream, rendering] { rendering->render(stream.view()); }});
  }
  for (Rendering& rendering : others) {
    works.push_back({.stream = stream.get(), .enqueue = [&stream, &rendering] { rendering.render(stream.view()); }});
  }
  works.push_back({.stream = stream.get(), .enqueue = [&] { noise.draw_and_render(stream.view()); }});
  works.push_back({.stream = stream.get(), .enqueue = [&] { noise_crops.draw(stream.view()); }});
  const std::vector<bench::Figure> ms = gpu_times_ms(works, rounds);

  const double copy = gigabytes_per_s(2 * copied, ms[0]);
  const double judged = gigabytes_per_s(noise.bytes(), ms[1]);
  const auto percent = [copy](double rate) { return 100 * rate / copy; };
  const bench::Figure& reuse = ms[5 + std::size(others)];
  const bench::Figure& drawing = ms[6 + std::size(others)];
  const double crops = gigabytes_per_s(noise_crops.bytes(), ms[3]);
  const double crops_smooth = gigabytes_per_s(smooth_crops.bytes(), ms[4]);
  const RenderPlan& plan = noise.plan();
  const auto other = [&](std::size_t i) { return percent(gigabytes_per_s(others[i].bytes(), ms[5 + i])); };
  char text[800];
  std::snprintf(
      text, sizeof(text),
      "whole canvases of noise %.0f GB/s, %.0f %% of a device copy's %.0f GB/s (judged), smooth ones %.0f %%; "
      "random-resized crops of noise %.0f %%, of smooth ones %.0f %% (%.0f us, %.0f %% of the views enlarged); "
      "noise to float32 %.0f %%, uint8 %.0f %%, float16 NHWC %.0f %%, 299 x 299 %.0f %%; judged %.0f us, %.0f ns a "
      "sample; where views are drawn first, in a reuse, %.0f us; drawing crops %.0f us; "
      "%u x %lld x %lld uint8 -> %d x %d float16",
      judged, percent(judged), copy, percent(gigabytes_per_s(smooth.bytes(), ms[2])), percent(crops),
      percent(crops_smooth), 1e3 * ms[4].median(), 100 * smooth_crops.enlarged(), other(0), other(1), other(2),
      other(3), 1e3 * ms[1].median(), 1e6 * ms[1].median() / batch_size, 1e3 * reuse.median(), 1e3 * drawing.median(),
      batch_size, static_cast<long long>(plan.canvas.height), static_cast<long long>(plan.canvas.width),
      plan.view.height, plan.view.width);
  return {.subject = "fused kernel",
          .found = text,
          .wanted = ">= 70 %",
          .verdict = judged >= kWantedShare * copy ? Verdict::fine : Verdict::missed,
          .rounds = {{"copy, ms", ms[0].rounds},
                     {"noise, ms", ms[1].rounds},
                     {"smooth, ms", ms[2].rounds},
                     {"crops of noise, ms", ms[3].rounds},
                     {"smooth crops, ms", ms[4].rounds},
                     {"float32, ms", ms[5].rounds},
                     {"uint8, ms", ms[6].rounds},
                     {"float16 NHWC, ms", ms[7].rounds},
                     {"float16 299, ms", ms[8].rounds},
                     {"noise drawn and rendered, ms", reuse.rounds},
                     {"crops drawn, ms", drawing.rounds}}};
}

}  // namespace forebay::gpu_check
