#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <forebay/random.hpp>

#include "batch_hash.hpp"
#include "checks.hpp"
#include "gpu.hpp"

using namespace forebay::device;

namespace forebay::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

// Hashes that the GPU is still to compute before the host looks at them.
constexpr std::size_t kInFlight = 1024;

std::size_t words_of(const TensorView& images) { return images.bytes() / sizeof(std::uint32_t); }

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
    require(static_cast<cudaError_t>(gpu_check_hash(images.data, words_of(images), sum, stream_.get())),
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

std::uint64_t hash_of(const Lease& lease) {
  const TensorView images = lease.images();
  return batch_hash(static_cast<const std::uint32_t*>(images.data), words_of(images));
}

Soaked soak(Feeder& feeder, const ExpectedHash& expected, double seconds, std::uint64_t seed) {
  const TrainerStream stream;
  Random random(seed);
  HashLog log(stream);
  Soaked soaked;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::optional<Lease> held;  // over several steps, and looked at again before it ends
  std::uint64_t held_hash = 0;
  while (std::optional<Lease> lease = feeder.next(stream.view())) {
    ++soaked.steps;
    if (!lease->is_fresh()) ++soaked.reuses;
    delay_gpu(random, stream);
    const std::optional<std::uint64_t> hash = expected(*lease);
    if (!hash) {
      ++soaked.unforeseen;
      continue;
    }
    log.add(*lease, *hash);
    if (random.below(4) == 0) {
      if (held) log.add(*held, held_hash);
      held = std::move(lease);
      held_hash = *hash;
    }
    lease.reset();
    delay_host(random);
    if (Clock::now() > end) feeder.request_stop();
  }
  held.reset();
  log.settle();
  soaked.hashes = log.checked();
  soaked.wrong = log.wrong();
  return soaked;
}

std::string text_of(const Soaked& soaked) {
  char text[120];
  std::snprintf(text, sizeof(text), "%llu of %llu hashes wrong; %llu steps, %.0f %% reuses",
                static_cast<unsigned long long>(soaked.wrong), static_cast<unsigned long long>(soaked.hashes),
                static_cast<unsigned long long>(soaked.steps),
                soaked.steps == 0 ? 0 : 100.0 * static_cast<double>(soaked.reuses) / static_cast<double>(soaked.steps));
  return text;
}

Verdict verdict_on(const Soaked& soaked) {
  if (soaked.wrong > 0 || soaked.hashes == 0) return Verdict::wrong;
  const bool both_kinds = soaked.reuses > 0 && soaked.reuses < soaked.steps;
  return both_kinds && soaked.unforeseen * 10 < soaked.steps ? Verdict::fine : Verdict::missed;
}

Options quiet_options(const Setup& setup, const std::string& device) {
  Options options;
  options.device = device;
  options.dataset.path = setup.data.string();
  options.dataset.batch_size = 16;
  options.telemetry.dir = "";
  options.telemetry.interval_s = 0;
  options.telemetry.live = Live::never;
  return options;
}

namespace {

constexpr std::uint64_t kSeed = 1;

// The same batches in every epoch.
Options tensor_options(const Setup& setup, const std::string& device) {
  Options options = quiet_options(setup, device);
  options.dataset.shuffle = false;
  options.transform.crop = Crop::center;
  options.transform.mirror = 0;
  options.transform.size = {160, 160};
  options.queue.capacity = 4;
  return options;
}

// What each batch of an epoch is, by its number: from the host's own feeder.
std::vector<std::uint64_t> hashes_on_host(const Setup& setup) {
  Options options = tensor_options(setup, "host");
  options.policy.name = "block";
  Feeder feeder(std::move(options));
  std::vector<std::uint64_t> hashes(feeder.batches_per_epoch());
  while (const auto lease = feeder.next()) hashes.at(lease->batch()) = hash_of(*lease);
  return hashes;
}

}  // namespace

Row soak_row(const Setup& setup) {
  const std::vector<std::uint64_t> expected = hashes_on_host(setup);
  const std::unique_ptr<Device> device = open_device(setup);
  Options options = tensor_options(setup, setup.device);
  options.run.epochs = 1'000'000;
  // Often no batch is ready, so that batches are reused.
  options.storage.latency_ms = 2;
  options.storage.jitter = 1;
  Feeder feeder(std::move(options));
  const Soaked soaked = soak(
      feeder, [&](const Lease& lease) { return expected.at(lease.batch()); }, setup.soak_s, kSeed);
  return {.subject = "ring soak",
          .found = text_of(soaked) + ", seed " + std::to_string(kSeed),
          .wanted = "0 wrong",
          .verdict = verdict_on(soaked)};
}

namespace {

// A view of its own at every serving. Which steps reuse is not left to time, so that the host can foretell them.
Options view_options(const Setup& setup, const std::string& device) {
  Options options = quiet_options(setup, device);
  options.run.steps = setup.quick ? 40 : 1500;
  options.transform.when = When::dequeue;
  options.transform.views = 2;
  options.transform.dtype = DType::float16;
  options.queue.capacity = 4;
  options.policy.name = "interval";
  options.policy.interval = 3;
  return options;
}

using Serving = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // epoch, batch, use

Serving serving_of(const Lease& lease) { return {lease.epoch(), lease.batch(), lease.use_index()}; }

std::map<Serving, std::uint64_t> servings_on_host(const Setup& setup) {
  Feeder feeder(view_options(setup, "host"));
  std::map<Serving, std::uint64_t> hashes;
  while (const auto lease = feeder.next()) hashes[serving_of(*lease)] = hash_of(*lease);
  return hashes;
}

}  // namespace

Row views_row(const Setup& setup) {
  const std::map<Serving, std::uint64_t> expected = servings_on_host(setup);
  const std::unique_ptr<Device> device = open_device(setup);
  Feeder feeder(view_options(setup, setup.device));
  const auto hash = [&](const Lease& lease) -> std::optional<std::uint64_t> {
    const auto found = expected.find(serving_of(lease));
    if (found == expected.end()) return std::nullopt;
    return found->second;
  };
  const Soaked soaked = soak(feeder, hash, 1e9, kSeed + 1);
  return {.subject = "views at every serving",
          .found = text_of(soaked) + ", " + std::to_string(soaked.unforeseen) +
                   " of them servings that the host did not make",
          .wanted = "0 wrong",
          .verdict = verdict_on(soaked)};
}

}  // namespace forebay::gpu_check
