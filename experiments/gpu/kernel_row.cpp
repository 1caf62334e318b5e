#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "canvases.hpp"
#include "kernel_cases.hpp"
#include "twin_renderer.hpp"

using namespace forebay::device;
using namespace forebay::make;

namespace forebay::gpu_check {
namespace {

constexpr std::uint64_t kSeed = 17;

struct Tally {
  std::size_t cases = 0;
  std::size_t bytes = 0;
  std::size_t different = 0;
  std::set<std::string> kernels;

  void compare(const std::vector<std::byte>& found, const std::vector<std::byte>& expected) {
    for (std::size_t i = 0; i < found.size(); ++i) different += found[i] != expected[i] ? 1 : 0;
    bytes += found.size();
  }
};

// One sample of a batch by the host's twin.
std::vector<std::byte> by_twin(RenderPlan plan, RenderBatch batch, std::uint32_t sample) {
  const CanvasFormat all = plan.canvas;
  plan.canvas.batch_size = 1;
  std::vector<std::byte> slot(plan.canvas.batch_bytes());
  std::copy_n(batch.canvases + all.place_bytes() * sample, all.place_bytes(), slot.data());
  std::copy_n(batch.canvases + all.infos_offset() + sizeof(CanvasInfo) * sample, sizeof(CanvasInfo),
              slot.data() + plan.canvas.infos_offset());
  batch.canvases = slot.data();
  batch.size = 1;
  batch.first_position += sample;
  std::vector<std::byte> out(plan.sample_bytes());
  testing::TwinRenderer(plan).render(batch, out.data(), {});
  return out;
}

void compare(Device& device, const KernelCase& one, Tally& tally) {
  const RenderPlan plan = testing::render_plan(one.options, kSeed, false, one.batch_size);
  // Of some images all pixels are there, and of others as many as there is room for.
  const auto most = static_cast<std::int32_t>(std::max({plan.canvas.width, plan.canvas.height, std::int64_t{600}}));
  const std::vector<std::byte> slot = noise_canvases(plan.canvas, most, tally.cases + 1);
  const auto memory = upload(device, slot);
  const auto renderer = device.make_renderer(plan, 1);
  const std::size_t sample_bytes = plan.sample_bytes();
  const auto out = device.allocate(sample_bytes * one.batch_size);
  const StreamView stream = device.make_stream();
  const auto sample_of_device = [&](std::uint32_t sample) {
    std::vector<std::byte> found(sample_bytes);
    device.copy_out(found.data(), out->bytes().data() + sample_bytes * sample, sample_bytes, stream);
    return found;
  };
  for (std::uint64_t use = 0; use < one.servings; ++use) {
    RenderBatch batch{
        .canvases = memory->bytes().data(), .size = one.size, .epoch = 2, .first_position = 1000, .use_index = use};
    // As batches are served: the first use is drawn ahead.
    if (use == 0) {
      renderer->draw(batch, 0, stream);
      batch.drawn_in = 0;
    }
    renderer->render(batch, out->bytes().data(), stream);
    batch.canvases = slot.data();
    for (const std::uint32_t sample : one.compared)
      tally.compare(sample_of_device(sample), by_twin(plan, batch, sample));
  }
  // Behind a short batch nothing is written.
  const std::vector<std::byte> untouched(sample_bytes);
  for (std::uint32_t sample = one.size; sample < one.batch_size; ++sample)
    tally.compare(sample_of_device(sample), untouched);
  tally.kernels.insert(kernel_of(plan));
  ++tally.cases;
}

}  // namespace

Row kernel_row(const Setup& setup) {
  const std::unique_ptr<Device> device = open_device(setup);
  Tally tally;
  for (const KernelCase& one : kernel_cases(setup.quick)) compare(*device, one, tally);
  const bool is_well = tally.different == 0 && tally.kernels.size() == kRenderKernels;
  return {.subject = "kernels against the host's twin",
          .found = std::to_string(tally.different) + " bytes differ of " + std::to_string(tally.bytes) + " in " +
                   std::to_string(tally.cases) + " cases of " + std::to_string(tally.kernels.size()) + " of " +
                   std::to_string(kRenderKernels) + " kernels",
          .wanted = "0",
          .verdict = is_well ? Verdict::fine : Verdict::wrong};
}

}  // namespace forebay::gpu_check
