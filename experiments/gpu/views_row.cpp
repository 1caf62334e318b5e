#include <map>
#include <tuple>
#include <utility>

#include "gpu.hpp"
#include "soak.hpp"

namespace forebay::gpu_check {
namespace {

constexpr std::uint64_t kSeed = 2;

// A view of its own at every serving. Which steps reuse is not left to time, so that the host can foretell them.
Options view_options(const Setup& setup, const std::string& device) {
  Options options = quiet_options(setup, device);
  options.run.steps = setup.quick ? 40 : 1500;
  options.transform.when = When::dequeue;
  options.transform.dtype = DType::float16;
  options.queue.capacity = 4;
  options.policy.name = "interval";
  options.policy.interval = 3;
  return options;
}

using Serving = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // epoch, batch, use

Serving serving_of(const Lease& lease) { return {lease.epoch(), lease.batch(), lease.use_index()}; }

std::map<Serving, std::uint64_t> hashes_on_host(const Setup& setup) {
  Feeder feeder(view_options(setup, "host"));
  std::map<Serving, std::uint64_t> hashes;
  while (const auto lease = feeder.next()) hashes[serving_of(*lease)] = hash_of(*lease);
  return hashes;
}

}  // namespace

Row views_row(const Setup& setup) {
  const std::map<Serving, std::uint64_t> expected = hashes_on_host(setup);
  const std::unique_ptr<Device> device = open_device(setup);
  Feeder feeder(view_options(setup, setup.device));
  const auto hash = [&](const Lease& lease) -> std::optional<std::uint64_t> {
    const auto found = expected.find(serving_of(lease));
    if (found == expected.end()) return std::nullopt;
    return found->second;
  };
  const Soaked soaked = soak(feeder, hash, 1e9, kSeed);
  return {.subject = "views at every serving",
          .found = text_of(soaked) + ", " + std::to_string(soaked.unforeseen) +
                   " of them servings that the host did not make",
          .wanted = "0 wrong",
          .verdict = verdict_on(soaked)};
}

}  // namespace forebay::gpu_check
