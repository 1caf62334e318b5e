#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <forebay/feeder.hpp>

#include "row.hpp"

// A trainer that is slow and fast at random, on the host and on the GPU, keeps leases over steps, and has the GPU hash
// every batch it is handed.
namespace forebay::gpu_check {

// What the hash of a lease's batch must be; nothing where that is not known.
using ExpectedHash = std::function<std::optional<std::uint64_t>(const Lease& lease)>;

struct Soaked {
  std::uint64_t hashes = 0;
  std::uint64_t wrong = 0;
  std::uint64_t steps = 0;
  std::uint64_t reuses = 0;
  std::uint64_t unforeseen = 0;  // steps whose hash was not known
};

// The hash of a batch in memory of the host.
[[nodiscard]] std::uint64_t hash_of(const Lease& lease);

// Runs to the feeder's end, or asks it to stop after `seconds`. The GPU must be current on the calling thread.
// Throws Error.
[[nodiscard]] Soaked soak(Feeder& feeder, const ExpectedHash& expected, double seconds, std::uint64_t seed);

// "0 of 1000 hashes wrong; 500 steps, 40 % reuses".
[[nodiscard]] std::string text_of(const Soaked& soaked);

// Wrong where a hash is; missed where nothing, or everything, was a reuse, or a tenth of the steps were unforeseen.
[[nodiscard]] Verdict verdict_on(const Soaked& soaked);

// Options of a feeder that writes nothing and says nothing.
[[nodiscard]] Options quiet_options(const Setup& setup, const std::string& device);

}  // namespace forebay::gpu_check
