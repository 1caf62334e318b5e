// Which slots hold served batches, and when each goes back to the ring. A batch comes in with
// admit(), which puts out the oldest of a full pool; a slot that is still leased then waits in
// leaving_ until sweep() finds its leases ended. All on the thread that calls next(), which alone
// adds leases: so a count of zero stays zero (ring invariant R5). Vectors have their full size from
// the constructor on, because nothing here may allocate.

#include "reuse_pool.hpp"

#include <algorithm>
#include <utility>

namespace forebay::serve {

ReusePool::ReusePool(SlotStore& store, ring::SlotRing& ring, const QueueOptions& queue, Pick pick, LeftPool left_pool)
    : store_(store),
      ring_(ring),
      pool_size_(static_cast<std::size_t>(ring::pool_of(queue))),
      pick_(pick),
      left_pool_(std::move(left_pool)) {
  pool_.reserve(pool_size_);
  candidates_.reserve(pool_size_);
  leaving_.reserve(static_cast<std::size_t>(queue.max_leases));
}

void ReusePool::sweep() noexcept {
  // Acquire pairs with Lease::release(): ring invariant R5.
  std::erase_if(leaving_, [&](std::uint32_t slot) {
    if (store_.slot(slot).leases.load(std::memory_order_acquire) != 0) return false;
    ring_.retire(slot);
    return true;
  });
}

// The pool has at most some dozens of slots, so moving them up costs less than a ring's arithmetic
// would.
void ReusePool::evict_oldest() {
  const std::uint32_t slot = pool_.front();
  pool_.erase(pool_.begin());
  left_pool_(store_.slot(slot).uses);
  if (store_.slot(slot).leases.load(std::memory_order_acquire) == 0) {
    ring_.retire(slot);
  } else {
    leaving_.push_back(slot);
  }
}

// The eviction comes between take() and settle(): one store of head_ then shows the issuer both the
// turn that was taken and the slot that became free (R6).
std::uint32_t ReusePool::admit() {
  const std::uint32_t slot = ring_.take();
  if (pool_.size() == pool_size_) evict_oldest();
  pool_.push_back(slot);
  ring_.settle();
  return slot;
}

std::uint32_t ReusePool::leased() const noexcept {
  // Relaxed: only this thread adds leases and retires slots. One whose last lease ends meanwhile was counted when this
  // rank was found to hold too many.
  const auto is_leased = [this](std::uint32_t slot) {
    return store_.slot(slot).leases.load(std::memory_order_relaxed) != 0;
  };
  if (const auto found = std::ranges::find_if(pool_, is_leased); found != pool_.end()) return *found;
  if (const auto found = std::ranges::find_if(leaving_, is_leased); found != leaving_.end()) return *found;
  return pool_.back();
}

// Slots are asked for their uses each time: leases and reuses change them between steps.
std::uint32_t ReusePool::pick() noexcept {
  if (pick_ == Pick::current) return pool_.back();
  candidates_.clear();
  for (const std::uint32_t slot : pool_) candidates_.push_back({store_.slot(slot).uses, store_.slot(slot).turn});
  return pool_[pick_resident(pick_, candidates_)];
}

}  // namespace forebay::serve
