// Which device a rank gets, on machines simulated by the fake runtime.
#include <cuda_runtime_api.h>
#include <forebay/feeder.hpp>

#include "device/cuda/cuda_device.hpp"
#include "device/device_choice.hpp"
#include "fake_cuda.hpp"
#include "fake_job.hpp"
#include "make/canvas.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"
#include "twin_renderer.hpp"

using namespace forebay::device;
using namespace forebay::make;

namespace forebay {
namespace {

using namespace testing;

std::string refusal(const std::string& name) {
  return testing::error_of<ConfigError>([&] { static_cast<void>(make_device(name)); });
}

// Sets an environment variable while it exists.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name); before != nullptr) before_ = before;
    if (value == nullptr) {
      ::unsetenv(name);
    } else {
      ::setenv(name, value, 1);
    }
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// An environment without any launcher's variables.
struct NoLauncher {
  Variable torchrun{"LOCAL_RANK", nullptr};
  Variable open_mpi{"OMPI_COMM_WORLD_LOCAL_RANK", nullptr};
  Variable slurm{"SLURM_LOCALID", nullptr};
};

std::string gpu_chosen(const std::string& name, NodePlace place = {}) {
  const DeviceChoice choice = make_device(name, place);
  const std::string text = choice.device->describe();
  const std::size_t from = text.find("cuda:");
  return from == std::string::npos ? text : text.substr(from, text.find_first_of(",)", from) - from);
}

TEST_CASE("auto takes a GPU where there is one, and the host with one clear line where there is none") {
  const NoLauncher launcher;
  {
    const DeviceChoice choice = make_device("auto");
    CHECK(choice.device->is_host());
    CHECK(
        contains(choice.notice, "device = \"auto\": batches stay in host memory, because no NVIDIA driver is loaded"));
    CHECK(choice.gpu.empty());
  }
  {
    const FakeCuda machine({.driver = 12020});
    const DeviceChoice choice = make_device("auto");
    CHECK(choice.device->is_host());
    CHECK(contains(
        choice.notice,
        "the NVIDIA driver is too old: it knows CUDA 12.2 and this build needs one for CUDA 13, 580 or later"));
  }
  {
    const Variable visible("CUDA_VISIBLE_DEVICES", "");
    const FakeCuda machine({.gpus = 0});
    const DeviceChoice choice = make_device("auto");
    CHECK(choice.device->is_host());
    CHECK(contains(choice.notice, "no GPU is visible to this process (CUDA_VISIBLE_DEVICES is \"\")"));
    CHECK_FALSE(contains(choice.notice, "\n"));
  }
  {
    FakeCuda machine;
    machine.fail_next("cudaGetDeviceCount", cudaErrorSystemNotReady);
    const DeviceChoice choice = make_device("auto");
    CHECK(choice.device->is_host());
    CHECK(contains(choice.notice, "nvidia-fabricmanager"));
  }
  const FakeCuda machine;
  const DeviceChoice choice = make_device("auto");
  CHECK(choice.device->kind() == DeviceKind::cuda);
  CHECK(choice.notice.empty());
  CHECK(choice.gpu == "GPU-00000000-0000-0000-0000-000000000001");
}

TEST_CASE("host is the host, and CUDA is not asked") {
  FakeCuda machine;
  machine.fail_next("cudaGetDeviceCount", cudaErrorIllegalAddress);
  CHECK(make_device("host").device->is_host());
  CHECK(make_device("host").notice.empty());
}

TEST_CASE("a GPU that was asked for by name and is not there is a ConfigError that says why") {
  CHECK(contains(refusal("cuda"), "device = \"cuda\": no NVIDIA driver is loaded"));
  CHECK(contains(refusal("cuda:1"), "device = \"cuda:1\": no NVIDIA driver is loaded"));
  {
    const FakeCuda machine({.gpus = 0});
    CHECK(contains(refusal("cuda"), "no GPU is visible"));
  }
  {
    const FakeCuda machine({.gpus = 1});
    CHECK(contains(refusal("cuda:1"), "this process sees one GPU, cuda:0; use one of those"));
  }
  const FakeCuda machine({.gpus = 4});
  CHECK(contains(refusal("cuda:4"), "this process sees 4 GPUs, cuda:0 to cuda:3"));
  for (const char* name : {"cuda:", "cuda:one", "gpu", ""}) CHECK(contains(refusal(name), "there is no such device"));
}

TEST_CASE("ranks take the GPUs of their node in turn") {
  const NoLauncher launcher;
  const FakeCuda machine({.gpus = 3});
  CHECK(gpu_chosen("cuda") == "cuda:0");
  CHECK(gpu_chosen("cuda:2") == "cuda:2");
  for (unsigned rank = 0; rank < 7; ++rank) {
    const std::string expected = "cuda:" + std::to_string(rank % 3);
    CHECK(gpu_chosen("auto", {.local_rank = rank, .local_ranks = 7}) == expected);
    CHECK(gpu_chosen("cuda", {.local_rank = rank, .local_ranks = 7}) == expected);
    CHECK(gpu_chosen("cuda:1", {.local_rank = rank, .local_ranks = 7}) == "cuda:1");
  }
}

TEST_CASE("a rank that knows of no other asks the launcher's environment") {
  const NoLauncher launcher;
  const FakeCuda machine({.gpus = 4});
  CHECK(gpu_chosen("cuda") == "cuda:0");
  const Variable slurm("SLURM_LOCALID", "3");
  CHECK(gpu_chosen("cuda") == "cuda:3");
  {
    const Variable open_mpi("OMPI_COMM_WORLD_LOCAL_RANK", "5");
    CHECK(gpu_chosen("cuda") == "cuda:1");
    CHECK(gpu_chosen("cuda", {.local_rank = 2, .local_ranks = 4}) == "cuda:2");
  }
  const Variable strange("OMPI_COMM_WORLD_LOCAL_RANK", "first");
  CHECK(gpu_chosen("cuda") == "cuda:3");  // Slurm's variable counts
}

TEST_CASE("the GPU that is current on the calling thread comes before what the launcher says") {
  const NoLauncher launcher;
  const Variable torchrun("LOCAL_RANK", "2");
  const FakeCuda machine({.gpus = 4});
  CHECK(gpu_chosen("cuda") == "cuda:2");
  CHECK(make_device("auto").doubt.empty());
  REQUIRE(cudaSetDevice(3) == cudaSuccess);
  for (const char* name : {"auto", "cuda"}) {
    CHECK(gpu_chosen(name) == "cuda:3");
    CHECK(gpu_chosen(name, {.local_rank = 1, .local_ranks = 4}) == "cuda:3");
    CHECK(make_device(name).doubt.empty());  // it was chosen explicitly
  }
  CHECK(gpu_chosen("cuda:1") == "cuda:1");
  std::string elsewhere;
  std::thread([&] { elsewhere = gpu_chosen("cuda"); }).join();
  CHECK(elsewhere == "cuda:2");
}

TEST_CASE("a rank that has cuda:0 current like each rank that chose none is told so") {
  const NoLauncher launcher;
  const FakeCuda machine({.gpus = 4});
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(make_device("cuda").doubt.empty());
  const Variable torchrun("LOCAL_RANK", "2");
  const DeviceChoice choice = make_device("cuda");
  CHECK(choice.device->index() == 0);
  CHECK(contains(choice.doubt, "batches are on cuda:0, which is current on the thread that makes the feeder"));
  CHECK(contains(choice.doubt, "local rank 2 of a node with 4 GPUs"));
  CHECK(contains(choice.doubt, "torch.cuda.set_device"));
}

TEST_CASE("auto takes the host where the GPU works for nobody or for somebody else, and cuda is an error") {
  const NoLauncher launcher;
  for (const auto& [call, status, why] : {std::tuple{"cudaSetDevice", cudaErrorDevicesUnavailable, "exclusive mode"},
                                          {"cudaGetDeviceProperties", cudaErrorECCUncorrectable, "reports damage"}}) {
    CAPTURE(call);
    FakeCuda machine;
    machine.fail_next(call, status);
    const DeviceChoice choice = make_device("auto");
    CHECK(choice.device->is_host());
    CHECK(choice.gpu.empty());
    CHECK(contains(choice.doubt, "device = \"auto\": batches stay in host memory, because the GPU cannot be used: "));
    CHECK(contains(choice.doubt, why));
    machine.fail_next(call, status);
    CHECK_THROWS_AS((void)make_device("cuda"), DeviceError);
  }
}

TEST_CASE("ranks that share a GPU are named") {
  const std::vector<std::string> gpus{"GPU-a", "GPU-b", "GPU-a", "", "", "GPU-a"};
  CHECK(contains(shared_gpu_notice(gpus, 0), "ranks 0, 2, 5 share one GPU (GPU-a)"));
  CHECK(shared_gpu_notice(gpus, 5) == shared_gpu_notice(gpus, 0));
  CHECK(shared_gpu_notice(gpus, 1).empty());
  CHECK(shared_gpu_notice(gpus, 3).empty());
}

TEST_CASE("ranks are on the GPUs that they made current, and are told if that is one of several for all of them") {
  for (const bool is_shared : {false, true}) {
    CAPTURE(is_shared);
    FakeCuda machine({.gpus = 2});
    FakeJob job(2);
    std::array<std::string, 2> said;
    std::array<std::int32_t, 2> gpus{};
    job.run([&](Communicator& rank) {
      REQUIRE(cudaSetDevice(is_shared ? 0 : static_cast<int>(rank.rank())) == cudaSuccess);
      Parts parts;
      parts.dataset = std::make_shared<MemoryDataset>(50);
      std::string& lines = said.at(rank.rank());
      parts.log = [&lines](LogLevel, std::string_view text) { lines.append(text).append("\n"); };
      Options options = memory_options(6);
      options.device = "cuda";
      Feeder feeder(options, rank, std::move(parts));
      if (const auto lease = feeder.next(feeder.stream())) gpus.at(rank.rank()) = lease->images().device_index;
      while (feeder.next(feeder.stream())) continue;
    });
    CHECK(gpus == (is_shared ? std::array<std::int32_t, 2>{0, 0} : std::array<std::int32_t, 2>{0, 1}));
    CHECK((contains(said[0], "ranks 0, 1 share one GPU")) == is_shared);
  }
}

// Rendering through the CUDA backend on the fake runtime: the calls that reach the kernels, and
// their order.

constexpr std::uint32_t kBatch = 3;
constexpr int kLaunchesOfTrial = 2;  // made by a renderer at construction

RenderPlan small_plan() {
  TransformOptions options;
  options.size = {10, 12};
  options.dtype = DType::float16;
  options.when = When::dequeue;
  return render_plan(options, 17, false, kBatch);
}

// A slot of canvases with random content.
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
    const std::unique_ptr<CanvasRenderer> renderer = device.make_renderer(plan, 0);
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
  machine.fail_next("launch of drawing", cudaErrorNoKernelImageForDevice);
  const std::string error = testing::error_of([&] { static_cast<void>(device.make_renderer(small_plan(), 0)); });
  CAPTURE(error);
  CHECK(contains(error, "the kernel that draws views failed"));
  CHECK(contains(error, "no code for this GPU"));
}

TEST_CASE("a stream of another GPU is refused before a kernel is put there") {
  const RenderPlan plan = small_plan();
  FakeCuda machine({.gpus = 2});
  cuda::CudaDevice device(0);
  cuda::CudaDevice other(1);
  const auto memory = device.allocate(plan.canvas.batch_bytes());
  const auto out = device.allocate(plan.sample_bytes() * kBatch);
  const std::unique_ptr<CanvasRenderer> renderer = device.make_renderer(plan, 0);
  const StreamView foreign = other.make_stream();
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const std::string error = testing::error_of(
      [&] { renderer->render({.canvases = memory->bytes().data(), .size = kBatch}, out->bytes().data(), foreign); });
  CAPTURE(error);
  CHECK(contains(error, "cudaEventRecord failed"));
  CHECK(contains(error, "call cudaSetDevice() with the GPU of the feeder"));
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
  const std::unique_ptr<CanvasRenderer> renderer = device.make_renderer(plan, 0);
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

TEST_CASE("views that were drawn on another stream serve the first use of the place's batch") {
  const RenderPlan plan = small_plan();
  const FakeCuda machine({.seed = 3});
  cuda::CudaDevice device(0);
  Random random(3);
  const std::vector<std::byte> slot = random_slot(plan.canvas, random);
  const auto staging = device.allocate_staging(slot.size());
  const auto memory = device.allocate(slot.size());
  std::memcpy(staging->bytes().data(), slot.data(), slot.size());
  const std::size_t out_bytes = plan.sample_bytes() * kBatch;
  constexpr std::uint32_t kPlaces = 3;
  const auto out = device.allocate(kPlaces * out_bytes);
  const std::unique_ptr<CanvasRenderer> renderer = device.make_renderer(plan, kPlaces);
  const StreamView copying = device.make_stream();
  const StreamView training = device.make_stream();
  const DeviceEvent drawn = device.make_event();
  device.copy_in(memory->bytes().data(), staging->bytes().data(), slot.size(), copying);
  const auto serving_of = [&](std::uint32_t place) {
    return RenderBatch{.canvases = memory->bytes().data(), .size = kBatch, .first_position = 10 * place};
  };
  for (std::uint32_t place = 0; place < kPlaces; ++place) renderer->draw(serving_of(place), place, copying);
  device.record(drawn, copying);
  device.synchronize(drawn);
  // Other batches, without a place, are rendered in between.
  for (const std::uint32_t place : {2U, 0U, 1U}) {
    RenderBatch serving = serving_of(place);
    serving.drawn_in = place;
    renderer->render(serving, out->bytes().data() + place * out_bytes, training);
    serving.drawn_in.reset();
    serving.use_index = 1;
    const auto elsewhere = device.allocate(out_bytes);
    renderer->render(serving, elsewhere->bytes().data(), training);
    std::vector<std::byte> ignored(out_bytes);
    device.copy_out(ignored.data(), elsewhere->bytes().data(), out_bytes, training);
  }
  for (std::uint32_t place = 0; place < kPlaces; ++place) {
    RenderBatch serving = serving_of(place);
    serving.canvases = slot.data();
    std::vector<std::byte> expected(out_bytes);
    TwinRenderer(plan).render(serving, expected.data(), {});
    std::vector<std::byte> found(out_bytes);
    device.copy_out(found.data(), out->bytes().data() + place * out_bytes, out_bytes, training);
    CHECK(found == expected);
  }
  CHECK(machine.misuse().empty());
}

TEST_CASE("an empty batch is nothing to do") {
  const FakeCuda machine;
  cuda::CudaDevice device(0);
  const auto renderer = device.make_renderer(small_plan(), 0);
  renderer->render({}, nullptr, device.make_stream());
}

}  // namespace
}  // namespace forebay
