// How many batches the queue holds, at first and at most, computed from the options and the size of
// a slot alone. Pure functions, called once at the start of a run, before memory is allocated.
// Ranks call them with the same options, so ranks in lockstep, which compare their depths, get
// queues of one size.

#include "queue_slots.hpp"

#include <algorithm>
#include <string>

#include <forebay/error.hpp>

namespace forebay::ring {
namespace {

// Below this size saving memory is not worthwhile, so a queue starts as large as fits into it.
// Chosen, not measured.
constexpr std::size_t kSmall = std::size_t{16} * 1024 * 1024;
// The highest queue.capacity that the schema lets a configuration give as a number.
constexpr std::int64_t kMost = 4096;

// Ranks in lockstep decide by what they knew `lag` steps ago.
std::int64_t least_capacity(const Options& options) noexcept {
  return options.mpi.mode == MpiMode::lockstep ? std::max(kLeastCapacity, options.mpi.lag + 1) : kLeastCapacity;
}

}  // namespace

// queue.memory covers every slot, including those of residents and leases, which are subtracted
// from what the queue gets.
std::uint32_t most_capacity(const Options& options, std::size_t slot_bytes) {
  const QueueOptions& queue = options.queue;
  const std::int64_t least = least_capacity(options);
  std::int64_t most = capacity_of(queue);
  if (!is_automatic(queue)) return static_cast<std::uint32_t>(most);
  if (queue.memory > 0) {
    const auto slots = static_cast<std::int64_t>(static_cast<std::size_t>(queue.memory) / slot_bytes);
    const std::int64_t needed = least + slots_beside(queue);
    if (slots < needed) {
      throw ConfigError("queue.memory = " + std::to_string(queue.memory) + " holds " + std::to_string(slots) +
                        " batches of " + std::to_string(slot_bytes) + " bytes, and queue.capacity = \"auto\" needs " +
                        std::to_string(needed) + " (" + std::to_string(least) +
                        " + queue.pool + queue.max_leases - 1): set it to " +
                        std::to_string(static_cast<std::size_t>(needed) * slot_bytes) +
                        " or more, or lower queue.pool, queue.max_leases or dataset.batch_size");
    }
    most = std::min(slots - slots_beside(queue), kMost);
  }
  return static_cast<std::uint32_t>(std::max(most, least));
}

std::uint32_t first_capacity(const Options& options, std::size_t slot_bytes) {
  const std::uint32_t most = most_capacity(options, slot_bytes);
  const auto least = static_cast<std::uint32_t>(least_capacity(options));
  // All ranks in lockstep decide by the same depth, so their queues must have the same size.
  if (!is_automatic(options.queue) || options.mpi.mode == MpiMode::lockstep) return most;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(kSmall / slot_bytes, least, most));
}

}  // namespace forebay::ring
