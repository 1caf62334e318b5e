#pragma once

#include <cstdint>
#include <vector>

#include "slot_ring.hpp"
#include "slot_store.hpp"

namespace forebay::ring {

// Batches being copied from staging memory to their slots, in the order in which the copies were started. Each is
// published once its copy is complete (Staging's invariant S2). For one thread.
class Copies {
 public:
  // REQUIRES: store.staging(); both outlive it. Throws Error.
  Copies(SlotStore& store, SlotRing& ring)
      : store_(store), ring_(ring), stream_(store.device().make_stream()), turns_(ring.most_capacity()) {}

  // Starts the copy of a complete batch. REQUIRES: the caller has acquired what the decoders wrote. In stream order:
  // wait until the last users of the slot are done, copy, draw the views of the first serving, and mark the end of
  // both, for which publication waits. Copies on one stream end in the order of their start, so the queue needs only
  // first_ and last_.
  void start(std::uint32_t slot_number) {
    const SlotStore::Slot& slot = store_.slot(slot_number);
    store_.complete_for_device(slot_number);
    store_.staging()->copy(slot.turn, store_.begin_of(slot_number), *slot.stream_uses, stream_);
    store_.draw(slot_number, stream_);
    store_.staging()->mark(slot.turn, stream_);
    turn(last_++) = slot.turn;
  }
  [[nodiscard]] bool empty() const noexcept { return first_ == last_; }
  // Publishes the batches that are complete by now.
  void publish_complete() {
    while (!empty() && store_.staging()->is_copied(turn(first_))) ring_.publish(turn(first_++));
  }
  // Waits for the oldest and publishes it. REQUIRES: not empty().
  void publish_oldest() {
    store_.staging()->wait_copied(turn(first_));
    ring_.publish(turn(first_++));
  }

 private:
  [[nodiscard]] std::uint64_t& turn(std::uint64_t number) noexcept { return turns_[number % turns_.size()]; }

  SlotStore& store_;
  SlotRing& ring_;
  StreamView stream_;
  std::vector<std::uint64_t> turns_;  // [first_, last_) modulo the size; never more, by ring invariant R1
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace forebay::ring
