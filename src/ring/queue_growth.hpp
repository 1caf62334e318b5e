#pragma once

#include <cstdint>

#include <forebay/policy.hpp>

#include "queue_slots.hpp"

namespace forebay::ring {

// Decides when a queue of capacity "auto" needs more room: when a step lacked a batch that a larger queue would have
// had. No threads, no clocks; what it is told of each step are the signals of its decision.
//
// The measure is how far production falls behind the trainer: the batches that arrive, against those that would at the
// pace of fresh steps, as a bucket that never runs below empty. A steady store stays within one batch, however fast it
// is; a pause of t seconds puts it back by t times the pace. Time in which a full queue kept production waiting does
// not count.
//
// A step lacks a batch when it reuses, or when it had to wait. A policy that reuses can keep a reserve in a larger
// queue, so what is behind is what it needs. One that waits gets a reserve only where production has time to spare:
// since the last wait a full queue must have kept it from making a batch.
class QueueGrowth {
 public:
  explicit QueueGrowth(Capacity capacity) noexcept : capacity_(capacity.first), most_(capacity.most) {}

  // A step was decided. Returns the capacity from now on, at least twice what it was if it is more.
  std::uint32_t decided(Decision decision, const Signals& signals) noexcept;

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  // It became larger for another reason.
  void became(std::uint32_t capacity) noexcept { capacity_ = capacity; }

 private:
  // A pace a little below the real one lets go of what chance adds up.
  static constexpr double kPace = 0.9;
  // What is behind may be more the next time, and `adaptive` keeps its queue two thirds full.
  static constexpr double kReserve = 1.5;
  static constexpr double kKept = 1 - 1. / 64;  // of the older fresh steps in the pace, per fresh step
  static constexpr double kFewest = 8;          // fresh steps before there is a pace

  // Batches per second.
  [[nodiscard]] double pace() const noexcept;
  [[nodiscard]] std::uint32_t needed() const noexcept;

  std::uint32_t capacity_;
  std::uint32_t most_;
  double behind_ = 0;    // batches, before those that arrived with the last step
  double worked_s_ = 0;  // of the producer, unblocked
  double fresh_ = 0;     // fresh steps, older ones count less
  double fresh_s_ = 0;   // their time
  double last_fresh_s_ = 0;
  double spared_s_ = 0;  // blocked time as of the last wait
  std::uint64_t produced_ = 0;
};

}  // namespace forebay::ring
