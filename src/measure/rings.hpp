#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "counters.hpp"

namespace forebay {

// A bounded queue of step records from one thread (the trainer's) to one other (telemetry's). push() and pop() are
// wait-free: they never lock, allocate, loop or enter the kernel. A full ring drops the new record and counts it.
//
// Invariants (tail_ counts records ever pushed, head_ records ever popped; record i lives in cell i mod capacity)
//  R1  Only the producer writes tail_ and dropped_, only the consumer writes head_; each grows by one at a time, so
//      their owner may read them relaxed.
//  R2  head_ <= tail_ <= head_ + capacity.
//  R3  Cell i belongs to the producer until its release store of tail_ = i + 1. The consumer's acquire load that
//      sees tail_ > i therefore sees the whole record.
//  R4  From then on it belongs to the consumer until its release store of head_ = i + 1. The producer's acquire load
//      that sees head_ > i therefore comes after the consumer has read the record: it may be overwritten.
//  R5  head_seen_ and tail_seen_ are earlier values of head_ and tail_. Both only grow, so an old value is safe: the
//      ring looks fuller to the producer or emptier to the consumer than it is. Each side looks again before it
//      gives up.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the padding keeps the two sides off each other's lines
class RecordRing {
 public:
  // Holds at least `capacity` records. All memory is allocated and touched here.
  explicit RecordRing(std::size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1), cells_(std::make_unique<StepRecord[]>(mask_ + 1)) {}
  RecordRing(const RecordRing&) = delete;
  RecordRing& operator=(const RecordRing&) = delete;

  // Producer's thread. False when the ring was full and the record was dropped.
  bool push(const StepRecord& record) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // R1
    if (tail - head_seen_ > mask_) {
      head_seen_ = head_.load(std::memory_order_acquire);                                         // R4, R5
      if (tail - head_seen_ > mask_) {                                                            // R2
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // R1
        return false;
      }
    }
    cells_[tail & mask_] = record;
    tail_.store(tail + 1, std::memory_order_release);  // R3
    return true;
  }

  // Consumer's thread. False when the ring was empty.
  bool pop(StepRecord& record) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);  // R1
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);  // R3, R5
      if (head == tail_seen_) return false;                // R2
    }
    record = cells_[head & mask_];
    head_.store(head + 1, std::memory_order_release);  // R4
    return true;
  }

  // Records dropped so far. Any thread.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

 private:
  static constexpr std::size_t kCacheLine = 64;

  const std::size_t mask_;
  const std::unique_ptr<StepRecord[]> cells_;

  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t head_seen_ = 0;
  std::atomic<std::uint64_t> dropped_{0};

  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};
  std::uint64_t tail_seen_ = 0;
};

// Which steps were fresh, one bit each, from one thread (the trainer's) to one other (telemetry's). Both sides are
// wait-free, as those of RecordRing are, but in the memory of a thousand records this one holds a million steps: a
// recording must outlast a disk that stands still. Once full it takes no more: what comes after a hole is of no use.
//
// Invariants (tail_ counts steps ever pushed, head_ steps ever taken; step i is bit i mod 64 of word i / 64 mod size)
//  D1  Only the producer writes tail_, word_, full_ and words_, only the consumer writes head_.
//  D2  Bit i is stored before the release store of tail_ = i + 1. The consumer's acquire load that sees tail_ > i
//      therefore sees it; later stores to the same word leave it as it is.
//  D3  head_ <= tail_ <= head_ + capacity - 64: a word is begun anew only after each of its steps was taken, which the
//      producer's acquire load of head_ has seen.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the padding keeps the two sides off each other's lines
class DecisionRing {
 public:
  explicit DecisionRing(std::size_t steps = std::size_t{1} << 20)
      : size_(std::bit_ceil(std::max<std::size_t>(steps / kBits, 2))),
        words_(std::make_unique<std::atomic<std::uint64_t>[]>(size_)) {}
  DecisionRing(const DecisionRing&) = delete;
  DecisionRing& operator=(const DecisionRing&) = delete;

  // Producer's thread.
  void push(bool fresh) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // D1
    if (tail - head_seen_ > most_waiting()) {
      head_seen_ = head_.load(std::memory_order_acquire);  // D3
      if (tail - head_seen_ > most_waiting()) full_.store(true, std::memory_order_release);
    }
    if (full_.load(std::memory_order_relaxed)) return;
    const std::uint64_t bit = tail % kBits;
    word_ = (bit == 0 ? 0 : word_) | (std::uint64_t{fresh} << bit);
    words_[tail / kBits % size_].store(word_, std::memory_order_relaxed);
    tail_.store(tail + 1, std::memory_order_release);  // D2
  }

  // Consumer's thread: calls take(fresh) for each step that was pushed since, in order. It must not throw.
  template <typename Take>
  void drain(Take&& take) {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);  // D2
    std::uint64_t head = head_.load(std::memory_order_relaxed);        // D1
    for (; head < tail; ++head) {
      const std::uint64_t word = words_[head / kBits % size_].load(std::memory_order_relaxed);
      take(((word >> (head % kBits)) & 1U) != 0);
    }
    head_.store(head, std::memory_order_release);  // D3
  }

  // Whether a step was refused. A drain() after this was true has taken all that will ever come. Any thread.
  [[nodiscard]] bool is_full() const noexcept { return full_.load(std::memory_order_acquire); }

 private:
  static constexpr std::size_t kCacheLine = 64;
  static constexpr std::size_t kBits = 64;

  [[nodiscard]] std::uint64_t most_waiting() const noexcept { return (size_ - 1) * kBits - 1; }

  const std::size_t size_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> words_;

  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t head_seen_ = 0;  // an earlier value of head_, which only grows
  std::uint64_t word_ = 0;       // the one that tail_ is in
  std::atomic<bool> full_{false};

  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};
};

}  // namespace forebay
