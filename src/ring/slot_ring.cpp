// The life of a turn, in order: the consumer plans it (plan, settle), the issuer claims it and gets
// a free slot for it (claim), decoders fill the slot and the last of them publishes it (publish),
// and the consumer takes it (take), keeps it resident for a while, and gives the slot back (retire,
// settle). One issuer thread, any number of publishers and one consumer thread; nobody else may
// call what changes the ring.
//
// No role locks: each writes numbers of its own and publishes them with release, and the others
// load them with acquire. R1 to R9, which the comments cite, stand in slot_ring.hpp with their
// reasons, and tests/ring_model.cpp has a weak-memory explorer weaken each order that is named here.
// Whoever changes an order runs that test first.

#include "slot_ring.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/clock.hpp"

namespace forebay::ring {
namespace {

// Raises it to at least `value`; returns the result.
std::int64_t raise(std::atomic<std::int64_t>& most, std::int64_t value) noexcept {
  std::int64_t seen = most.load(std::memory_order_relaxed);
  while (seen < value && !most.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
  return std::max(seen, value);
}

}  // namespace

// Both tables have a power of two of entries, so that a turn's entry is a mask away. All slots that
// the first capacity needs start in free_; those above it are held back until grow().
SlotRing::SlotRing(Capacity capacity, std::uint32_t slots, std::uint64_t planned, std::function<bool()> busy)
    : most_(capacity.most),
      entry_mask_(std::bit_ceil(static_cast<std::uint64_t>(capacity.most)) - 1),
      free_mask_(std::bit_ceil(static_cast<std::uint64_t>(slots)) - 1),
      entries_(entry_mask_ + 1),
      free_(free_mask_ + 1),
      busy_(std::move(busy)),
      retired_(slots - (capacity.most - capacity.first)),
      planned_(planned),
      capacity_(capacity.first),
      last_publish_ns_(steady_ns()) {
  std::iota(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(retired_), 0U);
  unused_ = static_cast<std::uint32_t>(retired_);
}

// A claim that finds nothing being filled ends a time in which the ring was full, and adds it to
// blocked_ns_; blocked() reports the one that still lasts.
bool SlotRing::claim(const std::atomic<bool>& stopped, Claim& out) {
  // Acquire pairs with settle(): R5, with plan(): R7, and with grow(): R6.
  const auto may_claim = [&] {
    const std::uint64_t in_flight = claimed_ - head_.load(std::memory_order_acquire);
    const bool has_room = in_flight < capacity_.load(std::memory_order_acquire);
    return has_room && claimed_ < planned_.load(std::memory_order_acquire);
  };
  room_.wait([&] { return may_claim() || stopped.load(std::memory_order_relaxed); });
  if (stopped.load(std::memory_order_relaxed)) return false;
  // Acquire pairs with publish(), which stores the time before it counts down.
  if (filling_.fetch_add(1, std::memory_order_acquire) == 0) {
    // Release: a thread that sees this time added does not see the ring idle from before it.
    blocked_ns_.fetch_add(steady_ns() - last_publish_ns_.load(std::memory_order_relaxed), std::memory_order_release);
  }
  const std::uint32_t slot = free_[claimed_ & free_mask_];  // R6
  entries_[claimed_ & entry_mask_].slot = slot;             // R2
  out = {claimed_++, slot};
  claims_.store(claimed_, std::memory_order_relaxed);
  return true;
}

// The batch becomes visible first. What follows is statistics and waking, which may be late by any
// time without harm, but the time of publication has to come before filling_ sinks: the next claim
// reads it once it finds zero.
void SlotRing::publish(std::uint64_t turn) noexcept {
  entries_[turn & entry_mask_].published.store(turn + 1, std::memory_order_release);  // R3
  raise(last_publish_ns_, steady_ns());  // another publisher may have stored a later one
  published_count_.fetch_add(1, std::memory_order_relaxed);
  filling_.fetch_sub(1, std::memory_order_release);
  published_.notify_all();
  // Relaxed: stale numbers cost or save a wake-up, and the consumer makes those that are required (R8).
  const std::uint64_t limit = std::min(head_.load(std::memory_order_relaxed) + capacity(), planned());
  const std::uint64_t claims = claims_.load(std::memory_order_relaxed);
  if (claims < limit && !can_do_without(limit - claims)) room_.notify_all();
}

void SlotRing::advance_tail() noexcept {
  // Acquire: R3. The entry may still hold an older turn, never a later one (R2).
  while (entries_[tail_ & entry_mask_].published.load(std::memory_order_acquire) == tail_ + 1) ++tail_;
}

SlotRing::State SlotRing::state() noexcept {
  if (taken_ == planned()) return State::all_taken;
  advance_tail();
  return tail_ != taken_ ? State::ready : State::starved;
}

std::uint32_t SlotRing::depth() noexcept {
  advance_tail();
  return static_cast<std::uint32_t>(tail_ - taken_);
}

std::uint64_t SlotRing::produced() noexcept {
  advance_tail();
  return tail_;
}

// Batches are published in any order, so this counts those beyond a gap too, and the two loads are
// of two moments: enough for a report, not for a decision.
std::uint32_t SlotRing::depth_guess() const noexcept {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const std::uint64_t count = published();
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count > head ? count - head : 0, capacity()));
}

std::uint32_t SlotRing::take() noexcept { return entries_[taken_++ & entry_mask_].slot; }

void SlotRing::retire(std::uint32_t slot) noexcept { free_[retired_++ & free_mask_] = slot; }

// Slots that were never used go into free_ before the new capacity is stored, because an issuer
// that sees the capacity takes a number from free_ without a check (R6).
void SlotRing::grow(std::uint32_t capacity) noexcept {
  const std::uint32_t now = this->capacity();
  const std::uint32_t next = std::min(std::max(capacity, wanted_.load(std::memory_order_relaxed)), most_);
  if (next <= now) return;
  for (std::uint32_t added = now; added < next; ++added) retire(unused_++);
  capacity_.store(next, std::memory_order_release);  // R6
}

// This store is what gives retired slots back: head_ carries every number that retire() has written
// into free_ since the last call (R5).
void SlotRing::settle() noexcept {
  head_.store(taken_, std::memory_order_release);  // R5
  announce_if_due();
}

void SlotRing::pass() noexcept {
  ++passed_;
  announce_if_due();
}

// Relaxed: a stale number only wakes the issuer once more. Publishers may have woken it for some already.
std::uint64_t SlotRing::unannounced() noexcept {
  const std::uint64_t turns = limit();
  if (announced_ < turns) announced_ = std::max(announced_, claims_.load(std::memory_order_relaxed));
  return turns - announced_;
}

// The three cases in which sleeping on would break R8: enough can be claimed, the issuer has slept
// for long enough, or no batch is known to be ready and the workers want more.
void SlotRing::announce_if_due() noexcept {
  if (wanted_.load(std::memory_order_relaxed) > capacity()) grow(0);
  const std::uint64_t turns = unannounced();
  if (turns == 0) {
    passed_ = 0;
  } else if (turns >= patience() || passed_ >= capacity() || (tail_ == taken_ && !can_do_without(turns))) {
    announce();
  }
}

// However few the turns are: from now on the consumer waits for one of them, or for what is claimed
// already.
void SlotRing::announce_before_wait() noexcept {
  const std::uint64_t turns = unannounced();
  if (turns > 0 && !can_do_without(turns)) announce();
}

// The issuer looks again after this (W3) and then sees head_ and planned_ as they are now.
void SlotRing::announce() noexcept {
  announced_ = limit();
  passed_ = 0;
  room_.notify_all();
}

// For stops and failures, which change conditions that the two wait points do not know of.
void SlotRing::wake() noexcept {
  room_.notify_all();
  published_.notify_all();
}

// Both loads acquire, so that no time counts twice: a total that includes the time before a claim comes with filling_
// as of that claim or later, and an idle ring with the time at which it became idle. A claim between the two loads, or
// one that has not added its time yet, hides time that was reported before: so the largest report counts.
std::chrono::nanoseconds SlotRing::blocked(Clock::time_point now) const noexcept {
  std::int64_t total = blocked_ns_.load(std::memory_order_acquire);
  if (filling_.load(std::memory_order_acquire) == 0) {
    total += std::max<std::int64_t>(steady_ns(now) - last_publish_ns_.load(std::memory_order_relaxed), 0);
  }
  return std::chrono::nanoseconds(raise(blocked_told_, total));
}

}  // namespace forebay::ring
