#pragma once

#include <cstdint>

#include <forebay/policy.hpp>

#include "queue_slots.hpp"

namespace forebay::ring {

// Decides when a queue of capacity "auto" needs more room: when a step lacked a batch that a larger queue would have
// had. No threads, no clocks: its inputs are the signals of each step's decision.
//
// It measures how far production falls behind the trainer: the batches that arrive, compared with those expected at the
// pace of fresh steps, as a bucket that never goes below empty. A steady store stays within one batch, however fast it
// is; a pause of t seconds sets it back by t times the pace. Time in which a full queue blocked production does not
// count.
//
// A step lacks a batch if it reuses one or had to wait. A policy that reuses can keep a reserve in a larger queue, so
// it needs as much as production is behind. A policy that waits gets a reserve only if production has time to spare:
// since the last wait, a full queue must have kept it from making a batch.
class QueueGrowth {
 public:
  explicit QueueGrowth(Capacity capacity) noexcept : capacity_(capacity.first), most_(capacity.most) {}

  // Takes in the decision of a step. Returns the capacity from now on, at least doubled if it grows.
  std::uint32_t decided(Decision decision, const Signals& signals) noexcept;

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  // Called if the capacity grew for another reason.
  void became(std::uint32_t capacity) noexcept { capacity_ = capacity; }

 private:
  // A pace slightly below the real one drains what accumulates by chance.
  static constexpr double kPace = 0.9;
  // The backlog may be larger the next time, and `adaptive` keeps its queue two thirds full.
  static constexpr double kReserve = 1.5;
  static constexpr double kKept = 1 - 1. / 64;  // weight of older fresh steps in the pace, per fresh step
  static constexpr double kFewest = 8;          // fresh steps before there is a pace

  // Batches per second.
  [[nodiscard]] double pace() const noexcept;
  [[nodiscard]] std::uint32_t needed() const noexcept;

  std::uint32_t capacity_;
  std::uint32_t most_;
  double behind_ = 0;    // batches, before those that arrived with the last step
  double worked_s_ = 0;  // time in which the producer was unblocked
  double fresh_ = 0;     // fresh steps, older ones count less
  double fresh_s_ = 0;   // their time
  double last_fresh_s_ = 0;
  double spared_s_ = 0;  // blocked time as of the last wait
  std::uint64_t produced_ = 0;
};

}  // namespace forebay::ring
