#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <forebay/options.hpp>

namespace forebay::ring {

// How many batches may be filling or ready: at the start of a run, and at most.
struct Capacity {
  constexpr Capacity(std::uint32_t fixed) noexcept : first(fixed), most(fixed) {}  // NOLINT: the usual case
  constexpr Capacity(std::uint32_t at_first, std::uint32_t at_most) noexcept : first(at_first), most(at_most) {}

  std::uint32_t first;
  std::uint32_t most;  // >= first
};

[[nodiscard]] constexpr bool is_automatic(const QueueOptions& queue) noexcept { return queue.capacity == 0; }

// The least that queue.capacity = "auto" begins with: one batch for the trainer while the next is being filled.
inline constexpr std::int64_t kLeastCapacity = 2;

// queue.capacity, or the most that "auto" stands for if queue.memory is not set.
[[nodiscard]] constexpr std::int64_t capacity_of(const QueueOptions& queue) noexcept {
  constexpr std::int64_t kUsual = 16;
  return is_automatic(queue) ? kUsual : queue.capacity;
}

// queue.pool, or the value of "auto": what the capacity leaves of 20 batches, because in that memory a pool is worth
// more than a longer queue (docs/decisions/0024-uses-have-a-limit.md). A small queue, or one that grows, is a request
// for little memory.
[[nodiscard]] constexpr std::int64_t pool_of(const QueueOptions& queue) noexcept {
  constexpr std::int64_t kLeast = 4;
  constexpr std::int64_t kTogether = 20;
  if (queue.pool != kAutomatic) return queue.pool;
  if (is_automatic(queue)) return kLeast;
  return std::max(kLeast, std::min(queue.capacity * 3 / 2, kTogether - queue.capacity));
}

// Batches that a queue keeps in memory besides those filling or ready: `pool` that may be reused, and those that have
// left the pool while the trainer holds leases on them. A batch enters the pool only while one more lease may be taken,
// so all leases but one can be on batches that have left it (src/ring/slot_ring.hpp, R6).
[[nodiscard]] constexpr std::int64_t slots_beside(const QueueOptions& queue) noexcept {
  return pool_of(queue) + queue.max_leases - 1;
}
// The largest number of slots.
[[nodiscard]] constexpr std::int64_t slots_of(const QueueOptions& queue) noexcept {
  return capacity_of(queue) + slots_beside(queue);
}

// The largest capacity that is possible. A function of the options and the size of a batch alone, because it determines
// how far a rank plans ahead, and so which batches ranks hand over to each other. Throws ConfigError naming
// queue.memory if that holds too few batches.
[[nodiscard]] std::uint32_t most_capacity(const Options& options, std::size_t slot_bytes);
// The initial capacity: few batches if they are large, because memory once used is not returned.
[[nodiscard]] std::uint32_t first_capacity(const Options& options, std::size_t slot_bytes);

}  // namespace forebay::ring
