#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <forebay/policy.hpp>

#include "ring/slot_ring.hpp"
#include "ring/slot_store.hpp"

namespace forebay::serve {

// The batches taken from the ring and not yet given back: the last `pool` of them may be reused, older ones stay only
// while leases hold them. Consumer thread only; no allocation after construction.
class ReusePool {
 public:
  // Called with the number of times that a batch was served when it leaves the pool.
  using LeftPool = std::function<void(std::uint64_t uses)>;

  ReusePool(SlotStore& store, ring::SlotRing& ring, const QueueOptions& queue, Pick pick, LeftPool left_pool);

  [[nodiscard]] bool empty() const noexcept { return pool_.empty(); }
  // Gives back slots that have left the pool and whose leases have since ended. Call before admit().
  void sweep() noexcept;
  // Takes the next batch from the ring; it becomes the current one. REQUIRES: the ring is ready, and fewer than
  // max_leases leases are held since before sweep() was called (ring invariant R6).
  [[nodiscard]] std::uint32_t admit();
  // The slot that a reuse would serve. REQUIRES: not empty.
  [[nodiscard]] std::uint32_t pick() noexcept;
  // A slot that is already leased, so that another lease on it occupies no further slot (ring invariant R6); if none is
  // leased, one of the pool. REQUIRES: not empty.
  [[nodiscard]] std::uint32_t leased() const noexcept;
  // Slots of the pool, oldest first.
  [[nodiscard]] std::span<const std::uint32_t> slots() const noexcept { return pool_; }

 private:
  void evict_oldest();

  SlotStore& store_;
  ring::SlotRing& ring_;
  std::size_t pool_size_;
  Pick pick_;
  LeftPool left_pool_;
  std::vector<std::uint32_t> pool_;     // oldest first, the last is current
  std::vector<std::uint32_t> leaving_;  // evicted while leased
  std::vector<Resident> candidates_;    // the argument of the pick
};

}  // namespace forebay::serve
