// What other libraries learn about batches on a GPU, and that a tensor ends its lease in the order
// of the stream. On the fake runtime.
#include <cuda_runtime_api.h>
#include <forebay/feeder.hpp>
#include <forebay/interop.hpp>

#include "fake_cuda.hpp"
#include "field_dataset.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::testing {
namespace {

Options options_of(DType dtype, const std::string& device = "cuda:1") {
  Options options = memory_options(6);
  options.device = device;
  options.transform.dtype = dtype;
  options.queue.capacity = 1;  // three slots, which are soon refilled
  options.queue.pool = 1;
  options.queue.max_leases = 1;
  return options;
}

cudaStream_t stream_on(int gpu) {
  REQUIRE(cudaSetDevice(gpu) == cudaSuccess);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  return stream;
}

struct Description {
  DType dtype;
  const char* typestr;
};

TEST_CASE("a batch on a GPU is described with the GPU's number and the stream it is ordered on") {
  for (const Description& type :
       {Description{DType::float32, "<f4"}, Description{DType::float16, "<f2"}, Description{DType::uint8, "|u1"}}) {
    CAPTURE(type.typestr);
    FakeCuda machine({.gpus = 2});
    cudaStream_t mine = stream_on(1);
    Feeder feeder(options_of(type.dtype), parts(12));
    std::optional<Lease> batch = feeder.next({mine});
    REQUIRE(batch);
    const TensorView images = batch->images();
    CHECK(images.device == DeviceKind::cuda);
    CHECK(images.device_index == 1);

    const CudaArrayInterface described = cuda_array_interface(*batch);
    CHECK(described.data == reinterpret_cast<std::uintptr_t>(images.data));
    CHECK(described.read_only);
    CHECK(described.shape == images.shape);
    CHECK(described.typestr == type.typestr);
    CHECK(described.stream == reinterpret_cast<std::uintptr_t>(mine));
    CHECK(described.version == 3);

    const auto tensor = to_dlpack(std::make_shared<Lease>(std::move(*batch)));
    CHECK(tensor->dl_tensor.data == images.data);
    CHECK(tensor->dl_tensor.device.device_type == 2);
    CHECK(tensor->dl_tensor.device.device_id == 1);
  }
}

TEST_CASE("no stream is CUDA's default stream, which the interface calls 1") {
  FakeCuda machine({.gpus = 2});
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  Feeder feeder(options_of(DType::uint8), parts(12));
  const std::optional<Lease> batch = feeder.next();
  REQUIRE(batch);
  CHECK(cuda_array_interface(*batch).stream == 1);
}

TEST_CASE("bfloat16 goes by DLPack only") {
  FakeCuda machine({.gpus = 2});
  cudaStream_t mine = stream_on(1);
  Feeder feeder(options_of(DType::bfloat16), parts(12));
  std::optional<Lease> batch = feeder.next({mine});
  REQUIRE(batch);
  const std::string error = testing::error_of([&] { static_cast<void>(cuda_array_interface(*batch)); });
  CAPTURE(error);
  CHECK(contains(error, "bfloat16"));
  CHECK(contains(error, "to_dlpack()"));
  CHECK(to_dlpack(std::make_shared<Lease>(std::move(*batch)))->dl_tensor.dtype.code == 4);
}

TEST_CASE("a consumer on another thread lets go while its kernels still wait, and they find their batch") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    FakeCuda machine({.gpus = 2, .seed = seed});
    cudaStream_t mine = stream_on(1);
    std::atomic<std::size_t> wrong{0};
    std::size_t steps = 0;
    Feeder feeder(options_of(DType::uint8), parts(300));
    while (std::optional<Lease> batch = feeder.next({mine})) {
      ++steps;
      const std::vector<std::uint64_t> ids(batch->ids().begin(), batch->ids().end());
      const std::byte* const bytes = behind(batch->images().data, batch->images().bytes());
      REQUIRE(bytes != nullptr);
      const auto look = [&wrong, ids, bytes] {
        constexpr std::size_t kPixels = MemoryDataset::kSide * MemoryDataset::kSide;
        for (std::size_t i = 0; i < ids.size() * kPixels; ++i) {
          const auto expected = static_cast<std::byte>(MemoryDataset::pixel(ids[i / kPixels], i % kPixels));
          wrong += bytes[3 * i] == expected ? 0 : 1;
        }
      };
      REQUIRE(launch_on_host(look, mine) == cudaSuccess);
      // The thread has not selected a GPU, like one that only collects garbage.
      auto* const tensor = to_dlpack(std::make_shared<Lease>(std::move(*batch))).release();
      std::thread([tensor] { tensor->deleter(tensor); }).join();
    }
    feeder.close();
    REQUIRE(cudaStreamSynchronize(mine) == cudaSuccess);
    CHECK(steps == 50);
    CHECK(wrong == 0);
    CHECK(machine.started() == std::set<int>{1});  // no thread has started CUDA on GPU 0
    CHECK(machine.misuse().empty());
  }
}

TEST_CASE("a lease on the default stream ends on any thread") {
  FakeCuda machine({.gpus = 2});
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  Feeder feeder(options_of(DType::uint8), parts(60));
  std::size_t steps = 0;
  while (std::optional<Lease> batch = feeder.next()) {
    ++steps;
    std::thread([lease = std::move(*batch)]() mutable { lease.release(); }).join();
  }
  CHECK(steps == 10);
  CHECK(machine.started() == std::set<int>{1});
}

std::string refusal_of(Feeder& feeder, StreamView stream) {
  return testing::error_of([&] { static_cast<void>(feeder.next(stream)); });
}

TEST_CASE("a stream that would be another one where the lease ends is refused before a batch is taken") {
  FakeCuda machine({.gpus = 2});
  cudaStream_t mine = stream_on(1);
  Feeder feeder(options_of(DType::uint8), parts(12));
  const std::string per_thread = refusal_of(feeder, {cudaStreamPerThread});
  CAPTURE(per_thread);
  CHECK(contains(per_thread, "cudaStreamPerThread"));
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  for (cudaStream_t by_default : {cudaStream_t{}, cudaStreamLegacy}) {
    const std::string wrong_gpu = refusal_of(feeder, {by_default});
    CAPTURE(wrong_gpu);
    CHECK(contains(wrong_gpu, "call cudaSetDevice(1)"));
  }
  // An ordinary stream is the same on every thread, and nothing was taken meanwhile.
  std::size_t samples = 0;
  while (const std::optional<Lease> batch = feeder.next({mine})) samples += batch->is_fresh() ? batch->size() : 0;
  CHECK(samples == 12);
}

TEST_CASE("a lease that ends while a graph is captured spoils no capture, and is said") {
  FakeCuda machine({.gpus = 2});
  cudaStream_t stream = stream_on(1);
  Feeder feeder(options_of(DType::uint8), parts(5000));
  const auto capture = [&](auto&& work) {
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    work();
    cudaGraph_t graph = nullptr;
    return cudaStreamEndCapture(stream, &graph);
  };
  // During a capture next() refuses, and takes no batch.
  auto lease = feeder.next({stream});
  REQUIRE(lease);
  const std::uint64_t step = lease->step();
  lease.reset();
  std::string error;
  CHECK(capture([&] { error = error_of([&] { (void)feeder.next({stream}); }); }) == cudaSuccess);
  CAPTURE(error);
  CHECK(contains(error, "a CUDA graph is being captured: call next() and copy_to_host()"));
  lease = feeder.next({stream});
  REQUIRE(lease);
  CHECK(lease->step() == step + 1);
  // Nor is there a copy to wait for.
  std::vector<std::byte> copy(lease->images().bytes());
  CHECK(capture([&] { error = error_of([&] { lease->copy_to_host(copy); }); }) == cudaSuccess);
  CHECK(contains(error, "a CUDA graph is being captured"));
  // In a slot that was never used, ending the lease would be legal, and later copies would join the
  // capture.
  CHECK(capture([&] { lease.reset(); }) == cudaSuccess);
  error = error_of([&] {
    while (feeder.next({stream})) continue;
  });
  CHECK(contains(error, "a CUDA graph is being captured"));
  CHECK(machine.misuse().empty());
}

TEST_CASE("on the host there is no stream to refuse") {
  Feeder feeder(options_of(DType::uint8, "host"), parts(12));
  CHECK(feeder.next({cudaStreamPerThread}));
}

// Random views, three of each sample.
Options views_options(const std::string& device) {
  Options options = options_of(DType::float32, device);
  options.transform.when = When::dequeue;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {3, 3};
  options.transform.canvas = {4, 4};
  options.dataset.drop_last = true;
  options.policy.name = "interval";
  options.policy.interval = 3;
  return options;
}

// How many wrong pixels a consumer's kernels find. They run on `theirs`, which is passed to the
// lease as `number`. Images are rendered on the feeder's stream, or are in their slots.
std::size_t wrong_for_consumer(std::uint64_t seed, bool is_rendered, const auto& stream_of, const auto& number_of) {
  std::vector<std::vector<std::byte>> expected;
  Options options = views_options("host");
  if (!is_rendered) options.transform.when = When::enqueue;
  {
    Feeder feeder(options, parts(60));
    while (const std::optional<Lease> batch = feeder.next()) {
      expected.emplace_back(batch->images().bytes());
      batch->copy_to_host(expected.back());
    }
  }
  options.device = "cuda:1";
  const FakeCuda machine({.gpus = 2, .seed = seed});
  cudaStream_t theirs = stream_of();
  std::atomic<std::size_t> wrong{0};
  std::size_t steps = 0;
  {
    Feeder feeder(options, parts(60));
    while (std::optional<Lease> batch = feeder.next(feeder.stream())) {
      const std::byte* const bytes = behind(batch->images().data, batch->images().bytes());
      const auto lease = std::make_shared<Lease>(std::move(*batch));
      order_consumer(*lease, number_of(theirs));
      const dlpack::ManagedTensorVersioned tensor = to_dlpack(lease);
      const auto look = [&wrong, bytes, &right = expected.at(steps)] {
        wrong += std::equal(right.begin(), right.end(), bytes) ? 0 : 1;
      };
      REQUIRE(launch_on_host(look, theirs) == cudaSuccess);
      ++steps;
    }
  }
  REQUIRE(cudaStreamSynchronize(theirs) == cudaSuccess);
  CHECK(steps == expected.size());
  CHECK(machine.misuse().empty());
  return wrong;
}

TEST_CASE("a consumer finds the batch on its own stream, default or not, and keeps its place until it has read it") {
  using Number = std::optional<std::intptr_t>;
  const auto own = [] { return stream_on(1); };
  const auto by_default = [] {
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    return cudaStream_t{};
  };
  std::size_t unordered = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    for (const bool is_rendered : {false, true}) {
      const auto handle = [](cudaStream_t stream) { return Number(reinterpret_cast<std::intptr_t>(stream)); };
      CHECK(wrong_for_consumer(seed, is_rendered, own, handle) == 0);
      CHECK(wrong_for_consumer(seed, is_rendered, by_default, [](cudaStream_t) { return Number(1); }) == 0);
      CHECK(wrong_for_consumer(seed, is_rendered, by_default, [](cudaStream_t) { return Number(); }) == 0);
      unordered += wrong_for_consumer(seed, is_rendered, own, [](cudaStream_t) { return Number(-1); });
    }
  }
  CHECK(unordered > 0);  // shows that the simulated GPU detects missing order
}

TEST_CASE("streams on which a consumer cannot be ordered are refused, and the lease goes on") {
  const FakeCuda machine({.gpus = 2});
  cudaStream_t mine = stream_on(1);
  Feeder feeder(options_of(DType::uint8), parts(12));
  std::optional<Lease> batch = feeder.next({mine});
  REQUIRE(batch);
  CHECK(error_of([&] { order_consumer(*batch, 2); }).find("another one on each thread") != std::string::npos);
  CHECK(error_of([&] { order_consumer(*batch, -7); }).find("stream -7 is none") != std::string::npos);
  cudaStream_t captures = stream_on(1);
  REQUIRE(cudaStreamBeginCapture(captures, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(error_of([&] { batch->use_on({captures}); }).find("a CUDA graph is being captured") != std::string::npos);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(captures, &graph) == cudaSuccess);
  batch->release();
  CHECK(error_of([&] { batch->use_on({captures}); }).find("the lease has ended") != std::string::npos);
  CHECK(feeder.next({mine}));
}

TEST_CASE("labels, fields and counts are where the images are, and the host has copies of what is small") {
  for (const When when : {When::enqueue, When::dequeue}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      FakeCuda machine({.gpus = 2, .seed = seed});
      cudaStream_t mine = stream_on(1);
      std::atomic<std::size_t> wrong{0};
      // A kernel that compares the device's bytes with the host's.
      const auto look = [&](const TensorView& there, const void* here) {
        REQUIRE(there.device == DeviceKind::cuda);
        const auto* const first = static_cast<const std::byte*>(here);
        const auto kernel = [&wrong, bytes = behind(there.data, there.bytes()),
                             right = std::vector<std::byte>(first, first + there.bytes())] {
          wrong += bytes != nullptr && std::equal(right.begin(), right.end(), bytes) ? 0 : 1;
        };
        REQUIRE(launch_on_host(kernel, mine) == cudaSuccess);
      };
      Options options = options_of(DType::uint8);
      options.transform.when = when;
      std::vector<Field> fields = FieldDataset::every_plain_field();
      if (when == When::enqueue) fields.push_back(FieldDataset::boxes(3));
      Parts parts;
      parts.dataset = std::make_shared<FieldDataset>(60, fields);
      Feeder feeder(options, std::move(parts));
      const std::vector<Field> all = feeder.fields();
      while (const std::optional<Lease> batch = feeder.next({mine})) {
        look(batch->field("label"), batch->labels().data());
        CHECK_FALSE(batch->field_on_host(0));
        for (std::size_t number = 1; number < all.size(); ++number) {
          const FieldKind kind = all[number].kind;
          const auto here = batch->field_on_host(number);
          REQUIRE(here.has_value() ==
                  (kind == FieldKind::class_number || kind == FieldKind::multilabel || kind == FieldKind::numbers));
          if (here) look(batch->field(number), here->data);
          if (is_ragged(kind)) look(batch->counts(number), batch->counts_on_host(number).data());
        }
      }
      feeder.close();
      REQUIRE(cudaStreamSynchronize(mine) == cudaSuccess);
      CHECK(machine.launches() > 40);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a step that knows one address only, as a replayed graph does, finds every batch there") {
  std::vector<std::vector<std::byte>> expected;
  {
    Feeder feeder(views_options("host"), parts(60));
    while (const std::optional<Lease> batch = feeder.next()) {
      expected.emplace_back(batch->images().bytes());
      batch->copy_to_host(expected.back());
    }
  }
  CHECK(expected.size() > 20);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    FakeCuda machine({.gpus = 2, .seed = seed});
    const std::array<cudaStream_t, 2> streams{stream_on(1), stream_on(1)};
    Random random(seed);
    std::vector<std::vector<std::byte>> found(expected.size());
    std::size_t steps = 0;
    std::size_t moved = 0;
    const void* captured = nullptr;
    Feeder feeder(views_options("cuda:1"), parts(60));
    while (const std::optional<Lease> batch = feeder.next({streams[random.below(2)]})) {
      const TensorView images = batch->images();
      if (captured == nullptr) captured = images.data;
      moved += images.data == captured ? 0 : 1;
      const std::byte* const bytes = behind(captured, images.bytes());
      REQUIRE(bytes != nullptr);
      REQUIRE(steps < found.size());
      const auto replay = [&found, steps, bytes, size = images.bytes()] { found[steps].assign(bytes, bytes + size); };
      REQUIRE(launch_on_host(replay, batch->stream().handle) == cudaSuccess);
      ++steps;
    }
    feeder.close();
    for (cudaStream_t stream : streams) REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(moved == 0);
    CHECK(found == expected);
    CHECK(machine.misuse().empty());
  }
}

}  // namespace
}  // namespace forebay::testing
