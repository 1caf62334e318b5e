#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <forebay/feeder.hpp>

#include "row.hpp"

// Batches that cost next to nothing to read and decode, for what moves them.
namespace forebay::gpu_check {

// Images of `side` x `side` RGB pixels in memory, as many as asked for.
[[nodiscard]] std::shared_ptr<const Dataset> images_in_memory(std::int32_t side);

// Options for batches of float32 tensors of such images as they are: nothing is cut, resized or mirrored.
[[nodiscard]] Options supply_options(const std::string& device, std::int32_t side, std::int64_t batch_size);

// Bytes of such batches that a feeder makes ready per second while the trainer takes each as soon as it is there:
// `batches` of them, after twice as many as the ring holds, which was filled before anybody took any. Throws Error.
[[nodiscard]] double supply_rate(Options options, const std::shared_ptr<const Dataset>& dataset, std::int64_t batches);

// Bytes per second.
struct Supply {
  double plain = 0;      // copies by the CUDA runtime
  double feeder = 0;     // through a feeder on the GPU
  double producers = 0;  // of the same feeder on the host
};

// Whether what the producers make is enough to judge the copies by.
[[nodiscard]] constexpr bool keeps_up(const Supply& supply) noexcept { return supply.producers >= supply.plain; }

// Fine where the feeder reaches nine tenths of plain copies. Where it does not because its producers are too slow for
// that, nothing is known of its copies.
[[nodiscard]] constexpr Verdict verdict_on(const Supply& supply) noexcept {
  if (supply.feeder >= 0.9 * supply.plain) return Verdict::fine;
  return keeps_up(supply) ? Verdict::missed : Verdict::unknown;
}

}  // namespace forebay::gpu_check
