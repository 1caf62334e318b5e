// Rendering through the CUDA backend on the fake runtime: what reaches the kernels, and in which order.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "device/cuda/cuda_device.hpp"
#include "fake_cuda.hpp"
#include "make/canvas.hpp"
#include "make/renderers.hpp"

namespace forebay::testing {
namespace {

constexpr std::uint32_t kBatch = 3;
constexpr int kLaunchesOfTrial = 2;  // a renderer's, when it is made

RenderPlan small_plan() {
  TransformOptions options;
  options.size = {10, 12};
  options.dtype = DType::float16;
  options.when = When::dequeue;
  return make_render_plan(options, 17, false, kBatch);
}

// A slot of canvases with anything in them.
std::vector<std::byte> random_slot(const CanvasFormat& format, Random& random) {
  std::vector<std::byte> slot(format.batch_bytes());
  for (std::byte& byte : slot) byte = static_cast<std::byte>(random.below(256));
  for (std::uint32_t i = 0; i < format.batch_size; ++i) {
    CanvasInfo info{.width = static_cast<std::int32_t>(1 + random.below(40)),
                    .height = static_cast<std::int32_t>(1 + random.below(40))};
    info.canvas_width = std::min(info.width, static_cast<std::int32_t>(format.width));
    info.canvas_height = std::min(info.height, static_cast<std::int32_t>(format.height));
    std::memcpy(slot.data() + format.infos_offset() + i * sizeof(info), &info, sizeof(info));
  }
  return slot;
}

TEST_CASE("a renderer serves what its twin does, whichever stream it is told, one after the other") {
  const RenderPlan plan = small_plan();
  const std::size_t out_bytes = plan.sample_bytes() * kBatch;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    FakeCuda machine({.seed = seed});
    cuda::CudaDevice device(0);
    Random random(seed);
    const std::vector<std::byte> slot = random_slot(plan.canvas, random);
    const auto staging = device.allocate_staging(slot.size());
    const auto memory = device.allocate(slot.size());
    std::memcpy(staging->bytes().data(), slot.data(), slot.size());
    const std::unique_ptr<CanvasRenderer> renderer = device.make_renderer(plan);
    const std::array<StreamView, 2> streams{device.make_stream(), device.make_stream()};
    const DeviceEvent copied = device.make_event();
    device.copy_in(memory->bytes().data(), staging->bytes().data(), slot.size(), streams[0]);
    device.record(copied, streams[0]);

    constexpr std::uint64_t kUses = 12;
    std::vector<std::unique_ptr<Arena>> results;
    std::vector<StreamView> used;
    for (std::uint64_t use = 0; use < kUses; ++use) {
      const StreamView stream = streams[random.below(2)];
      device.wait(stream, copied);
      results.push_back(device.allocate(out_bytes));
      used.push_back(stream);
      renderer->render({.canvases = memory->bytes().data(), .size = kBatch, .epoch = 1, .use_index = use},
                       results.back()->bytes().data(), stream);
    }
    TwinRenderer twin(plan);
    for (std::uint64_t use = 0; use < kUses; ++use) {
      std::vector<std::byte> expected(out_bytes);
      twin.render({.canvases = slot.data(), .size = kBatch, .epoch = 1, .use_index = use}, expected.data(), {});
      std::vector<std::byte> found(out_bytes);
      device.copy_out(found.data(), results[use]->bytes().data(), out_bytes, used[use]);
      CHECK(found == expected);
    }
    CHECK(machine.misuse().empty());
  }
}

TEST_CASE("a GPU that cannot run the kernels is found out when the renderer is made") {
  FakeCuda machine;
  cuda::CudaDevice device(0);
  machine.fail_next("launch", cudaErrorNoKernelImageForDevice);
  std::string error;
  try {
    static_cast<void>(device.make_renderer(small_plan()));
  } catch (const Error& e) {
    error = e.what();
  }
  CAPTURE(error);
  CHECK(error.find("the kernel that draws views failed") != std::string::npos);
  CHECK(error.find("no code for this GPU") != std::string::npos);
}

TEST_CASE("a stream of another GPU is refused before a kernel is put there") {
  const RenderPlan plan = small_plan();
  FakeCuda machine({.gpus = 2});
  cuda::CudaDevice device(0);
  cuda::CudaDevice other(1);
  const auto memory = device.allocate(plan.canvas.batch_bytes());
  const auto out = device.allocate(plan.sample_bytes() * kBatch);
  const std::unique_ptr<CanvasRenderer> renderer = device.make_renderer(plan);
  const StreamView foreign = other.make_stream();
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  std::string error;
  try {
    renderer->render({.canvases = memory->bytes().data(), .size = kBatch}, out->bytes().data(), foreign);
  } catch (const Error& e) {
    error = e.what();
  }
  CAPTURE(error);
  CHECK(error.find("cudaEventRecord failed") != std::string::npos);
  CHECK(error.find("call cudaSetDevice() with the GPU of the feeder") != std::string::npos);
  CHECK(machine.launches() == kLaunchesOfTrial);
}

TEST_CASE("a thread that chose another GPU renders on this one") {
  const RenderPlan plan = small_plan();
  FakeCuda machine({.gpus = 2});
  cuda::CudaDevice device(1);
  Random random(1);
  const std::vector<std::byte> slot = random_slot(plan.canvas, random);
  const auto staging = device.allocate_staging(slot.size());
  std::memcpy(staging->bytes().data(), slot.data(), slot.size());
  const auto memory = device.allocate(slot.size());
  const std::size_t out_bytes = plan.sample_bytes() * kBatch;
  const auto out = device.allocate(out_bytes);
  const std::unique_ptr<CanvasRenderer> renderer = device.make_renderer(plan);
  const StreamView stream = device.make_stream();
  device.copy_in(memory->bytes().data(), staging->bytes().data(), slot.size(), stream);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  renderer->render({.canvases = memory->bytes().data(), .size = kBatch}, out->bytes().data(), stream);
  std::vector<std::byte> expected(out_bytes);
  TwinRenderer(plan).render({.canvases = slot.data(), .size = kBatch}, expected.data(), {});
  std::vector<std::byte> found(out_bytes);
  device.copy_out(found.data(), out->bytes().data(), out_bytes, stream);
  CHECK(found == expected);
}

TEST_CASE("an empty batch is nothing to do") {
  const FakeCuda machine;
  cuda::CudaDevice device(0);
  const auto renderer = device.make_renderer(small_plan());
  renderer->render({}, nullptr, device.make_stream());
}

}  // namespace
}  // namespace forebay::testing
