#pragma once

#include <cstdint>

#include <forebay/options.hpp>

namespace forebay {

// Batches that a queue keeps in memory: `capacity` that are filling or ready, `pool` that may be reused, and those that
// have left the pool while the trainer holds leases on them. A batch enters the pool only while one more lease may be
// taken, so all leases but one can be on batches that have left it (src/ring/slot_ring.hpp, R6).
[[nodiscard]] constexpr std::int64_t slots_of(const QueueOptions& queue) noexcept {
  return queue.capacity + queue.pool + queue.max_leases - 1;
}

}  // namespace forebay
