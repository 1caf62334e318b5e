#pragma once

#include <cstdint>
#include <vector>

#include "slot_ring.hpp"
#include "slot_store.hpp"

namespace forebay::ring {

// Batches on their way from staging memory to their slots, in the order in which their copies were started. Each is
// published once its copy is complete (Staging's invariant S2). One thread.
class Copies {
 public:
  // REQUIRES: store.staging(); both outlive it. Throws Error.
  Copies(SlotStore& store, SlotRing& ring)
      : store_(store), ring_(ring), stream_(store.device().make_stream()), turns_(ring.most_capacity()) {}

  // Starts the copy of a complete batch. REQUIRES: the caller has acquired what the decoders wrote.
  void start(std::uint32_t slot);
  [[nodiscard]] bool empty() const noexcept { return first_ == last_; }
  // Publishes those that are complete by now.
  void publish_complete();
  // Waits for the oldest and publishes it. REQUIRES: not empty().
  void publish_oldest();

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
