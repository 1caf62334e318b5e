#include <utility>
#include <vector>

#include "gpu.hpp"
#include "soak.hpp"

namespace forebay::gpu_check {
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

}  // namespace forebay::gpu_check
