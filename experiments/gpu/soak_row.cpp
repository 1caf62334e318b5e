#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/random.hpp>

#include "batch_hash.hpp"
#include "gpu.hpp"

namespace forebay::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

// Hashes that the GPU is still to compute before the host looks at them.
constexpr std::size_t kInFlight = 1024;

// The same batches in every epoch, and often none ready, so that batches are reused.
Options soak_options(const Setup& setup, const std::string& device) {
  Options options;
  options.device = device;
  options.dataset.path = setup.data.string();
  options.dataset.batch_size = 16;
  options.dataset.shuffle = false;
  options.transform.crop = Crop::center;
  options.transform.mirror = 0;
  options.transform.size = {160, 160};
  options.queue.capacity = 4;
  options.telemetry.dir = "";
  options.telemetry.interval_s = 0;
  options.telemetry.live = Live::never;
  return options;
}

// What each batch of an epoch is, by its number: from the host's own feeder.
std::vector<std::uint64_t> expected_hashes(const Setup& setup) {
  Options options = soak_options(setup, "host");
  options.policy.name = "block";
  Feeder feeder(std::move(options));
  std::vector<std::uint64_t> hashes(feeder.batches_per_epoch());
  while (const auto lease = feeder.next()) {
    const TensorView images = lease->images();
    hashes.at(lease->batch()) = batch_hash(images.as<const std::uint32_t>(), images.bytes() / sizeof(std::uint32_t));
  }
  return hashes;
}

// Hashes that the GPU computes while the host goes on, and those that the host expects.
class HashLog {
 public:
  explicit HashLog(const TrainerStream& stream)
      : stream_(stream), sums_(gpu_memory(kInFlight * sizeof(std::uint64_t))), found_(kInFlight) {
    clear();
  }

  void add(const Lease& lease, std::uint64_t expected) {
    if (expected_.size() == kInFlight) settle();
    const TensorView images = lease.images();
    auto* const sum = reinterpret_cast<std::uint64_t*>(sums_.get()) + expected_.size();
    require(static_cast<cudaError_t>(
                gpu_check_hash(images.data, images.bytes() / sizeof(std::uint32_t), sum, stream_.get())),
            "the kernel that hashes a batch");
    expected_.push_back(expected);
  }
  // Waits for the GPU.
  void settle() {
    const std::size_t bytes = expected_.size() * sizeof(std::uint64_t);
    require(cudaMemcpyAsync(found_.data(), sums_.get(), bytes, cudaMemcpyDeviceToHost, stream_.get()),
            "cudaMemcpyAsync");
    stream_.synchronize();
    for (std::size_t i = 0; i < expected_.size(); ++i) wrong_ += found_[i] != expected_[i] ? 1 : 0;
    checked_ += expected_.size();
    clear();
  }
  [[nodiscard]] std::uint64_t checked() const noexcept { return checked_; }
  [[nodiscard]] std::uint64_t wrong() const noexcept { return wrong_; }

 private:
  void clear() {
    expected_.clear();
    require(cudaMemsetAsync(sums_.get(), 0, kInFlight * sizeof(std::uint64_t), stream_.get()), "cudaMemsetAsync");
  }

  const TrainerStream& stream_;
  GpuMemory sums_;
  std::vector<std::uint64_t> found_;
  std::vector<std::uint64_t> expected_;
  std::uint64_t checked_ = 0;
  std::uint64_t wrong_ = 0;
};

// Mostly none, sometimes long.
std::uint64_t random_delay_us(Random& random) {
  const std::uint64_t kind = random.below(8);
  if (kind < 4) return 0;
  return random.below(kind == 7 ? 5000 : 500);
}

void delay_host(Random& random) {
  if (const std::uint64_t us = random_delay_us(random); us > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void delay_gpu(Random& random, const TrainerStream& stream) {
  const std::uint64_t us = random_delay_us(random);
  if (us > 0) require(static_cast<cudaError_t>(gpu_check_spin(1000 * us, stream.get())), "the kernel that waits");
}

}  // namespace

Row soak_row(const Setup& setup) {
  constexpr std::uint64_t kSeed = 1;
  const std::vector<std::uint64_t> expected = expected_hashes(setup);
  const std::unique_ptr<Device> device = open_device(setup);
  const TrainerStream stream;
  Random random(kSeed);
  HashLog log(stream);

  Options options = soak_options(setup, setup.device);
  options.run.epochs = 1'000'000;
  options.storage.latency_ms = 2;
  options.storage.jitter = 1;
  Feeder feeder(std::move(options));
  const auto end = Clock::now() + std::chrono::duration<double>(setup.soak_s);
  std::optional<Lease> held;  // over several steps, and looked at again before it ends
  std::uint64_t reuses = 0;
  std::uint64_t steps = 0;
  while (std::optional<Lease> lease = feeder.next(stream.view())) {
    ++steps;
    if (!lease->is_fresh()) ++reuses;
    delay_gpu(random, stream);
    log.add(*lease, expected.at(lease->batch()));
    if (random.below(4) == 0) {
      if (held) log.add(*held, expected.at(held->batch()));
      held = std::move(lease);
    }
    lease.reset();
    delay_host(random);
    if (Clock::now() > end) feeder.request_stop();
  }
  held.reset();
  log.settle();
  feeder.close();

  char text[200];
  std::snprintf(text, sizeof(text), "%llu of %llu hashes wrong; %llu steps, %.0f %% reuses, %.0f s, seed %llu",
                static_cast<unsigned long long>(log.wrong()), static_cast<unsigned long long>(log.checked()),
                static_cast<unsigned long long>(steps),
                100.0 * static_cast<double>(reuses) / static_cast<double>(steps), setup.soak_s,
                static_cast<unsigned long long>(kSeed));
  const bool reused = reuses > 0 && reuses < steps;
  return {.subject = "ring soak",
          .found = text,
          .wanted = "0 wrong",
          .verdict = log.wrong() > 0 ? Verdict::wrong
                     : reused        ? Verdict::fine
                                     : Verdict::missed};
}

}  // namespace forebay::gpu_check
