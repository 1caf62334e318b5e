// The CUDA backend itself, on the fake runtime.
#include <cuda_runtime_api.h>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/memory.hpp"
#include "device_contract.hpp"
#include "fake_cuda.hpp"
#include "support.hpp"

using namespace forebay::device;

namespace forebay::testing {
namespace {

using cuda::CudaDevice;

struct FakeCudaBench {
  static constexpr bool kRefuses = true;
  explicit FakeCudaBench(std::uint64_t seed) : machine({.seed = seed}), gpu(0) {}
  ~FakeCudaBench() { CHECK(machine.misuse().empty()); }
  FakeCudaBench(const FakeCudaBench&) = delete;
  FakeCudaBench& operator=(const FakeCudaBench&) = delete;
  Device& device() { return gpu; }
  FakeCuda machine;
  CudaDevice gpu;
};

FOREBAY_DEVICE_CONTRACT(FakeCudaBench);

TEST_CASE("nothing of the caller changes when a device and its parts are made and ended") {
  FakeCuda machine({.gpus = 2});
  {
    CudaDevice device(1);
    const auto memory = device.allocate(1000);
    const auto staging = device.allocate_staging(1000);
    const StreamView stream = device.make_stream();
    const DeviceEvent event = device.make_event();
    CHECK(stream.handle != nullptr);
    CHECK(event.handle != nullptr);
  }
  // A call by this thread on GPU 0, or on GPU 1 after it was made current here, would show up.
  CHECK(machine.started() == std::set<int>{1});
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == cudaStreamCaptureModeGlobal);
  REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(machine.misuse().empty());
}

TEST_CASE("memory goes back to the GPU, also when it outlives its device") {
  FakeCuda machine;
  const std::size_t before = machine.memory_left();
  std::unique_ptr<Arena> memory;
  {
    CudaDevice device(0);
    memory = device.allocate(100'000);
    CHECK(machine.memory_left() < before);
  }
  memory.reset();
  CHECK(machine.memory_left() == before);
}

TEST_CASE("a GPU without room says how much it has") {
  FakeCuda machine({.memory = std::size_t{8} << 20});
  CudaDevice device(0);
  const std::string error = error_of([&] { static_cast<void>(device.allocate(std::size_t{9} << 20)); });
  CAPTURE(error);
  CHECK(contains(error, "cannot take 9 MiB of the GPU for the ring (8 MiB of its 8 MiB are free)"));
  CHECK(contains(error, "lower queue.capacity"));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("asking for an event leaves the thread's last error as the trainer would find it") {
  for (const cudaError_t before : {cudaSuccess, cudaErrorInvalidDevice}) {
    CAPTURE(before);
    FakeCuda machine({.seed = 3});
    CudaDevice device(0);
    const Places places(device, 64, 1, 1);
    const StreamView stream = device.make_stream();
    const DeviceEvent event = device.make_event();
    if (before != cudaSuccess) REQUIRE(cudaSetDevice(99) == before);
    bool was_incomplete = false;
    for (int round = 0; round < 100; ++round) {
      for (int copy = 0; copy < 10; ++copy) device.copy_in(places.at(0), places.staged(0), 64, stream);
      device.record(event, stream);
      was_incomplete = was_incomplete || !device.is_complete(event);
      REQUIRE(cudaPeekAtLastError() == before);
    }
    CHECK(was_incomplete);
  }
}

// Everything that a trainer's thread may do with a device whose GPU it did not select.
void use(CudaDevice& device, DeviceEvent event, const Places& places) {
  for (const StreamView stream : {device.make_stream(), StreamView{}}) {
    device.record(event, stream);
    device.wait(stream, event);
    static_cast<void>(device.is_complete(event));
    device.synchronize(event);
    CHECK(read(device, places.at(0), places.size, stream) == Bytes(places.size));
  }
}

TEST_CASE("a thread that chose no GPU starts CUDA on none, and its default stream is the device's") {
  FakeCuda machine({.gpus = 2});
  CudaDevice device(1);
  const DeviceEvent event = device.make_event();
  const Places places(device, 64, 1, 1);
  std::thread([&] { use(device, event, places); }).join();
  CHECK(machine.started() == std::set<int>{1});
  CHECK(machine.misuse().empty());
}

TEST_CASE("a thread that chose another GPU has it still") {
  FakeCuda machine({.gpus = 2});
  CudaDevice device(1);
  const DeviceEvent event = device.make_event();
  const Places places(device, 64, 1, 1);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  cudaEvent_t own = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&own, cudaEventDisableTiming | cudaEventBlockingSync) == cudaSuccess);
  use(device, event, places);
  CHECK(cudaEventRecord(own, nullptr) == cudaSuccess);
  CHECK(cudaEventRecord(static_cast<cudaEvent_t>(event.handle), nullptr) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("a failing GPU is an error that names the call and says what to do") {
  FakeCuda machine;
  CudaDevice device(0);
  const StreamView stream = device.make_stream();
  const DeviceEvent event = device.make_event();
  device.record(event, stream);
  const auto failing = [&](const char* call, auto&& use) {
    machine.fail_next(call, cudaErrorIllegalAddress);
    const std::string error = error_of(use);
    CAPTURE(error);
    CHECK(contains(error, std::string(call) + (contains(call, "Memcpy") ? " to the GPU" : "") + " failed: "));
    CHECK(contains(error, "cudaErrorIllegalAddress"));
    CHECK(contains(error, "compute-sanitizer"));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  };
  failing("cuCtxPushCurrent", [&] { device.record(event, stream); });
  failing("cuEventQuery", [&] { static_cast<void>(device.is_complete(event)); });
  failing("cudaEventSynchronize", [&] { device.synchronize(event); });
  // Waits asleep, not with cudaStreamSynchronize(), which keeps a core busy.
  const auto memory = device.allocate(16);
  failing("cudaEventSynchronize", [&] { static_cast<void>(read(device, memory->bytes().data(), 16, stream)); });
  failing("cudaEventRecord", [&] { device.record(event, stream); });
  failing("cudaStreamWaitEvent", [&] { device.wait(stream, event); });
  failing("cudaMemcpyAsync", [&] { device.copy_in(nullptr, nullptr, 0, stream); });
  failing("cudaStreamCreateWithPriority", [&] { static_cast<void>(device.make_stream()); });
  failing("cudaEventCreateWithFlags", [&] { static_cast<void>(device.make_event()); });
  failing("cudaGetDeviceProperties", [] { const CudaDevice other(0); });
}

TEST_CASE("an error that the user can mend says how") {
  FakeCuda machine;
  CudaDevice device(0);
  const auto advice = [&](cudaError_t status) {
    machine.fail_next("cudaStreamCreateWithPriority", status);
    return error_of([&] { static_cast<void>(device.make_stream()); });
  };
  CHECK(contains(advice(cudaErrorUnsupportedPtxVersion), "driver is too old"));
  CHECK(contains(advice(cudaErrorJitCompilerNotFound), "libnvidia-ptxjitcompiler"));
  CHECK(contains(advice(cudaErrorCompatNotSupportedOnDevice), "cuda-compat"));
  CHECK(contains(advice(cudaErrorLaunchTimeout), "display"));
  for (const cudaError_t status :
       {cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated, cudaErrorStreamCaptureMerge,
        cudaErrorStreamCaptureUnmatched, cudaErrorStreamCaptureUnjoined, cudaErrorStreamCaptureIsolation,
        cudaErrorStreamCaptureImplicit, cudaErrorStreamCaptureWrongThread, cudaErrorCapturedEvent}) {
    CAPTURE(status);
    CHECK(contains(advice(status), "a CUDA graph is being captured"));
  }
}

TEST_CASE("the stream of another GPU is refused with what to do") {
  FakeCuda machine({.gpus = 2});
  CudaDevice first(0);
  CudaDevice second(1);
  const std::string error = error_of([&] { first.record(first.make_event(), second.make_stream()); });
  CAPTURE(error);
  CHECK(contains(error, "cudaEventRecord failed"));
  CHECK(contains(error, "call cudaSetDevice() with the GPU of the feeder"));
}

TEST_CASE("a thread that entered has the GPU current and may call while a graph is captured") {
  FakeCuda machine({.gpus = 2});
  CudaDevice device(1);
  std::thread([&] {
    device.enter_thread();
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    CHECK(mode == cudaStreamCaptureModeRelaxed);
    // The null stream is the one of the thread's current GPU.
    device.record(device.make_event(), StreamView{});
  }).join();
  CHECK(machine.started() == std::set<int>{1});
}

TEST_CASE("copies go before kernels, and background work after them") {
  FakeCuda machine;
  CudaDevice device(0);
  CHECK(machine.priority_of(device.make_stream().handle) == kGreatestPriority);
  CHECK(machine.priority_of(device.make_background_stream().handle) == kLeastPriority);
}

TEST_CASE("a device says which GPU it is and where its staging memory is") {
  FakeCuda machine({.gpus = 3, .numa_node = 0});
  CudaDevice device(2);
  CHECK(device.kind() == DeviceKind::cuda);
  CHECK_FALSE(device.is_host());
  CHECK(device.describe() == "Fake GPU (cuda:2, PCI ffff:02:00.0), NUMA node 0");
  const std::string staging(device.allocate_staging(1)->describe());
  CAPTURE(staging);
  CHECK((staging == "pinned host memory on NUMA node 0" ||
         staging.starts_with("pinned host memory, NUMA node 0 not asked for (")));  // a container may forbid it
}

TEST_CASE("the NUMA node of a PCI device is what sysfs says") {
  const TemporaryDirectory sysfs;
  const std::filesystem::path pci = sysfs / "bus/pci/devices/0000:1b:00.0";
  std::filesystem::create_directories(pci);
  CHECK(cuda::numa_node_of_pci("0000:1B:00.0", sysfs.path().string()) == -1);
  std::ofstream(pci / "numa_node") << "3\n";
  CHECK(cuda::numa_node_of_pci("0000:1B:00.0", sysfs.path().string()) == 3);
  CHECK(cuda::numa_node_of_pci("0000:1c:00.0", sysfs.path().string()) == -1);
  CHECK_FALSE(cuda::prefer_numa_node(100'000).empty());
  CHECK_FALSE(cuda::prefer_numa_node(-1).empty());
}

}  // namespace
}  // namespace forebay::testing
