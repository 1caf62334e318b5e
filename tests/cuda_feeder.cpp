// The whole feeder with its batches on a GPU, on the fake runtime.
#include <cuda_runtime_api.h>
#include <forebay/feeder.hpp>

#include "fake_cuda.hpp"
#include "fake_job.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::testing {
namespace {

constexpr std::size_t kSampleBytes = MemoryDataset::kSide * MemoryDataset::kSide * 3;

Options gpu_options(const std::string& policy) {
  Options options = memory_options(6);
  options.device = "cuda";
  options.run.epochs = 3;
  options.policy.name = policy;
  options.policy.interval = 3;  // for policy "interval": two reuses of each batch
  return options;
}

// How many bytes of a batch do not belong to its ids.
std::size_t wrong_bytes(const std::byte* batch, const std::vector<std::uint64_t>& ids) {
  std::size_t wrong = 0;
  for (std::size_t sample = 0; sample < ids.size(); ++sample) {
    for (std::size_t i = 0; i < kSampleBytes; ++i) {
      const auto expected = static_cast<std::byte>(MemoryDataset::pixel(ids[sample], i / 3));
      wrong += batch[sample * kSampleBytes + i] != expected ? 1 : 0;
    }
  }
  return wrong;
}

// A trainer whose kernels check every byte of a batch when the GPU executes them.
class LookingTrainer {
 public:
  LookingTrainer() {
    for (cudaStream_t& stream : streams_) {
      REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
    }
  }
  [[nodiscard]] StreamView stream(std::size_t number) const { return {streams_[number % streams_.size()]}; }
  void look_at(const Lease& lease) {
    const TensorView images = lease.images();
    CHECK(images.device == DeviceKind::cuda);
    const std::byte* const bytes = behind(images.data, images.bytes());
    REQUIRE(bytes != nullptr);
    const std::vector<std::uint64_t> ids(lease.ids().begin(), lease.ids().end());
    REQUIRE(launch_on_host([this, bytes, ids] { wrong_ += wrong_bytes(bytes, ids); }, lease.stream().handle) ==
            cudaSuccess);
  }
  // `expected` must exist until wrong().
  void compare(const Lease& lease, const std::vector<std::byte>& expected) {
    const TensorView images = lease.images();
    const std::byte* const bytes = behind(images.data, images.bytes());
    REQUIRE(bytes != nullptr);
    REQUIRE(images.bytes() == expected.size());
    const auto look = [this, bytes, &expected] {
      wrong_ += std::equal(expected.begin(), expected.end(), bytes) ? 0 : 1;
    };
    REQUIRE(launch_on_host(look, lease.stream().handle) == cudaSuccess);
  }
  [[nodiscard]] std::size_t wrong() {
    for (cudaStream_t stream : streams_) REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    return wrong_;
  }

 private:
  std::array<cudaStream_t, 2> streams_{};
  std::atomic<std::size_t> wrong_{0};
};

TEST_CASE("batches on a GPU are whole whenever the GPU comes to use them") {
  for (const char* const policy : {"block", "interval", "greedy"}) {
    for (std::uint64_t seed = 1; seed <= 15; ++seed) {
      CAPTURES(policy, seed);
      FakeCuda machine({.seed = seed});
      LookingTrainer trainer;
      Random random(seed);
      Feeder feeder(gpu_options(policy), parts(50));
      std::uint64_t fresh_samples = 0;
      std::optional<Lease> kept;
      while (std::optional<Lease> lease = feeder.next(trainer.stream(random.below(2)))) {
        trainer.look_at(*lease);
        if (lease->is_fresh()) fresh_samples += lease->size();
        if (random.below(3) == 0) kept = std::move(lease);  // replaces the previous one, for several steps
      }
      CHECK(fresh_samples == 150);
      kept.reset();
      feeder.close();
      CHECK(trainer.wrong() == 0);
      CHECK(machine.misuse().empty());
    }
  }
}

Options view_options() {
  Options options = gpu_options("interval");
  options.transform.when = When::dequeue;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {3, 3};
  options.transform.canvas = {4, 4};
  options.transform.mirror = 0.5;
  options.transform.views = 2;
  options.transform.dtype = DType::float16;
  options.transform.layout = Layout::nchw;
  return options;
}

using Serving = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // epoch, batch, use

Serving serving_of(const Lease& lease) { return {lease.epoch(), lease.batch(), lease.use_index()}; }

TEST_CASE("views that a GPU renders are the host's, bit for bit, whenever the GPU comes to use them") {
  Options on_host = view_options();
  on_host.device = "host";
  std::map<Serving, std::vector<std::byte>> expected;
  Feeder host(on_host, parts(50));
  while (const std::optional<Lease> lease = host.next()) {
    std::vector<std::byte> bytes(lease->images().bytes());
    lease->copy_to_host(bytes);
    expected.emplace(serving_of(*lease), std::move(bytes));
  }
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    CAPTURE(seed);
    FakeCuda machine({.seed = seed});
    LookingTrainer trainer;
    Random random(seed);
    Feeder feeder(view_options(), parts(50));
    std::size_t steps = 0;
    std::size_t unknown = 0;
    std::optional<Lease> kept;
    while (std::optional<Lease> lease = feeder.next(trainer.stream(random.below(2)))) {
      ++steps;
      // Near the end of an epoch, which steps reuse which batch may differ; servings that both runs
      // made must be equal.
      if (const auto found = expected.find(serving_of(*lease)); found != expected.end()) {
        trainer.compare(*lease, found->second);
      } else {
        ++unknown;
      }
      if (random.below(3) == 0) kept = std::move(lease);
    }
    CHECK(unknown < steps / 4);
    kept.reset();
    feeder.close();
    CHECK(trainer.wrong() == 0);
    CHECK(machine.misuse().empty());
  }
}

TEST_CASE("a batch on a GPU can be copied to the host") {
  FakeCuda machine({.seed = 4});
  Feeder feeder(gpu_options("block"), parts(50));
  std::size_t samples = 0;
  while (const std::optional<Lease> lease = feeder.next(feeder.stream())) {
    std::vector<std::byte> bytes(lease->images().bytes());
    lease->copy_to_host(bytes);
    CHECK(wrong_bytes(bytes.data(), {lease->ids().begin(), lease->ids().end()}) == 0);
    samples += lease->size();
  }
  CHECK(samples == 150);
}

TEST_CASE("a mixed batch and its weights come to a GPU as they are on the host, and the host keeps the weights") {
  Options options = gpu_options("interval");
  options.transform.mixup.probability = options.transform.cutmix.probability = 0.5;
  const auto bytes_of = [](const Lease& lease, const TensorView& tensor) {
    std::vector<std::byte> bytes(tensor.bytes());
    lease.copy_to_host(tensor, bytes);
    return bytes;
  };
  using Tensors = std::pair<std::vector<std::byte>, std::vector<std::byte>>;
  const auto serve = [&](const std::string& device) {
    options.device = device;
    Feeder feeder(options, parts(50));
    std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, Tensors> served;
    while (const std::optional<Lease> lease = feeder.next(feeder.stream())) {
      const TensorView weights = lease->field("label_weights");
      CHECK((weights.device == DeviceKind::cuda) == (device == "cuda"));
      const Tensors tensors{bytes_of(*lease, lease->images()), bytes_of(*lease, weights)};
      const std::optional<TensorView> kept = lease->field_on_host(2);
      REQUIRE(kept);
      CHECK(std::memcmp(kept->data, tensors.second.data(), kept->bytes()) == 0);
      served.emplace(std::tuple(lease->epoch(), lease->batch(), lease->use_index()), tensors);
    }
    return served;
  };
  const auto expected = serve("host");
  CHECK(expected.size() > 2 * 3 * 9);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    FakeCuda machine({.seed = seed});
    CHECK(serve("cuda") == expected);
    CHECK(machine.misuse().empty());
  }
}

TEST_CASE("a lease outlives the feeder, on a GPU too") {
  FakeCuda machine({.seed = 5});
  const std::size_t before = machine.memory_left();
  {
    std::optional<Lease> lease;
    std::vector<std::uint64_t> ids;
    {
      Feeder feeder(gpu_options("block"), parts(50));
      lease = feeder.next(feeder.stream());
      REQUIRE(lease);
      ids.assign(lease->ids().begin(), lease->ids().end());
    }
    std::vector<std::byte> bytes(lease->images().bytes());
    lease->copy_to_host(bytes);
    CHECK(wrong_bytes(bytes.data(), ids) == 0);
  }
  CHECK(machine.memory_left() == before);
}

// The error of next() after `fail` was called after the first step.
template <typename Fail>
std::string error_after_first_step(Feeder& feeder, const Fail& fail) {
  try {
    auto lease = feeder.next(feeder.stream());
    REQUIRE(lease);
    fail();
    lease.reset();
    while (feeder.next(feeder.stream())) continue;
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a GPU that fails ends the run with its error, wherever it fails") {
  struct Place {
    Options options;
    const char* call;  // the next such call fails
    const char* error;
  };
  const std::array places{
      Place{gpu_options("interval"), "cudaMemcpyAsync", "cudaMemcpyAsync to the GPU failed"},  // the copying thread's
      Place{gpu_options("block"), "cudaEventRecord", "cudaEventRecord failed"},                // the end of a lease
      Place{view_options(), "launch of drawing", "the kernel that draws views"},
      Place{view_options(), "launch of rendering", "the kernel that renders views"},
  };
  for (const Place& place : places) {
    CAPTURE(place.call);
    FakeCuda machine;
    Feeder feeder(place.options, parts(5000));
    const std::string error =
        error_after_first_step(feeder, [&] { machine.fail_next(place.call, cudaErrorIllegalAddress); });
    CAPTURE(error);
    CHECK(error.find(place.error) != std::string::npos);
    CHECK(contains(error, "compute-sanitizer"));
    CHECK_THROWS_AS((void)feeder.next(feeder.stream()), Error);
  }
}

TEST_CASE("a batch that the GPU refused to show is in no state") {
  FakeCuda machine;
  Feeder feeder(view_options(), parts(5000));
  const std::string error =
      error_after_first_step(feeder, [&] { machine.fail_next("launch of rendering", cudaErrorIllegalAddress); });
  CHECK_FALSE(error.empty());
  const std::string refusal = testing::error_of([&] { (void)feeder.state(); });
  CAPTURE(refusal);
  CHECK(contains(refusal, "resume from the last state"));
}

TEST_CASE("a batch that one rank's GPU refuses to show ends the run on all ranks, at one step, and is in no state") {
  FakeCuda machine;
  FakeJob job(2);
  struct End {
    std::uint64_t steps = 0;
    std::string error;
    std::string refusal;  // error of state() before the ranks have agreed to end
  };
  std::array<End, 2> ends;
  job.run([&](Communicator& rank) {
    Feeder feeder(view_options(), rank, parts(5000));
    End& end = ends.at(rank.rank());
    try {
      while (const auto lease = feeder.next(feeder.stream())) {
        if (++end.steps == 5 && rank.rank() == 1) machine.fail_next("launch of rendering", cudaErrorIllegalAddress);
        if (end.steps < 4) continue;
        const std::string refusal = error_of([&] { return feeder.state(); });  // both ranks, after the same step
        if (!refusal.empty()) end.refusal = refusal;
      }
    } catch (const Error& error) {
      end.error = error.what();
    }
  });
  for (const End& end : ends) {
    CHECK(end.steps == ends.front().steps);
    CHECK(contains(end.error, "the kernel that renders views failed"));
    CAPTURE(end.refusal);
    CHECK(contains(end.refusal, " lost a batch when its device failed"));
  }
}

TEST_CASE("a trainer's hold on the feeder's stream survives going on from a state, and so does a GPU of one ring") {
  std::string state;
  {
    FakeCuda machine;
    Feeder feeder(view_options(), parts(50));
    for (int step = 0; step < 4; ++step) REQUIRE(feeder.next(feeder.stream()));
    state = feeder.state();
  }
  std::size_t ring = 0;
  {
    FakeCuda machine;
    const std::size_t before = machine.memory_left();
    const Feeder feeder(view_options(), parts(50));
    ring = before - machine.memory_left();
  }
  FakeCuda machine({.memory = ring + ring / 2});
  Feeder feeder(view_options(), parts(50));
  const StreamView stream = feeder.stream();
  feeder.restore_state(state);
  CHECK(feeder.stream().handle == stream.handle);
  std::uint64_t steps = 4;
  while (const auto lease = feeder.next(stream)) {
    CHECK(lease->step() == steps);
    ++steps;
  }
  CHECK(feeder.epochs_completed() == 3);
}

TEST_CASE("a feeder that could not go on from a state is closed, and can still be asked about itself") {
  FakeCuda machine;
  Feeder feeder(gpu_options("block"), parts(50));
  const std::string state = feeder.state();
  machine.fail_next("cudaMalloc", cudaErrorMemoryAllocation);
  CHECK_THROWS_AS(feeder.restore_state(state), Error);
  CHECK_FALSE(feeder.next(feeder.stream()));
  CHECK(contains(feeder.describe(), "in GPU memory"));
  CHECK(feeder.summary().steps == 0);
  feeder.close();
}

TEST_CASE("auto goes on in host memory where the GPU has no room, or no kernels for what it is to render") {
  const auto check = [](Options options, FakeCuda& machine, const char* why) {
    options.device = "auto";
    std::string said;
    Parts with_log = parts(50);
    with_log.log = [&said](LogLevel, std::string_view text) { said.append(text).append("\n"); };
    Feeder feeder(options, std::move(with_log));
    CAPTURE(said);
    CHECK(contains(said, "batches stay in host memory, because the GPU cannot be used: "));
    CHECK(contains(said, why));
    std::size_t steps = 0;
    while (const auto lease = feeder.next(feeder.stream())) {
      CHECK(lease->images().device == DeviceKind::host);
      ++steps;
    }
    CHECK(steps > 10);
    CHECK(machine.launches() == 0);
  };
  {
    FakeCuda machine({.memory = 4096});
    check(gpu_options("block"), machine, "of the GPU for the ring");
  }
  FakeCuda machine;
  machine.fail_next("launch of drawing", cudaErrorNoKernelImageForDevice);
  check(view_options(), machine, "FOREBAY_CUDA_ARCHITECTURES");
}

TEST_CASE("a GPU too small for the ring is an error at the start") {
  FakeCuda machine({.memory = 4096});
  const std::string error = testing::error_of([&] { const Feeder feeder(gpu_options("block"), parts(50)); });
  CAPTURE(error);
  CHECK(contains(error, "of the GPU for the ring"));
}

}  // namespace
}  // namespace forebay::testing
