#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace forebay::measure {

// A bounded queue of records from one thread (the trainer's) to another (telemetry's). push() and
// pop() are wait-free: they never lock, allocate, loop or enter the kernel. If the ring is full,
// the new record is dropped and counted.
//
// Invariants (tail_ counts the records ever pushed, head_ those ever popped; record i is in cell
// i mod capacity)
//  R1  Only the producer writes tail_ and dropped_, only the consumer writes head_; each grows by
//      one at a time, so their owner may read them relaxed.
//  R2  head_ <= tail_ <= head_ + capacity.
//  R3  Cell i belongs to the producer until its release store of tail_ = i + 1. The consumer's
//      acquire load that sees tail_ > i therefore sees the whole record.
//  R4  From then on it belongs to the consumer until its release store of head_ = i + 1. The
//      producer's acquire load that sees head_ > i therefore comes after the consumer has read the
//      record, and the cell may be overwritten.
//  R5  head_seen_ and tail_seen_ are earlier values of head_ and tail_. Both only grow, so an old
//      value is safe: to the producer the ring looks fuller, to the consumer emptier than it is.
//      Each side loads the current value before it gives up.
//  R6  dropped_ is stored with release and loaded with acquire: whoever sees that a record was
//      dropped can pop all records before it.
template <typename Record>
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the padding keeps the two sides off each other's lines
class RecordRing {
 public:
  // Holds at least `capacity` records. All memory is allocated and touched here.
  explicit RecordRing(std::size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1), cells_(std::make_unique<Record[]>(mask_ + 1)) {}
  RecordRing(const RecordRing&) = delete;
  RecordRing& operator=(const RecordRing&) = delete;

  // Producer's thread. Returns false if the ring was full and the record was dropped.
  bool push(const Record& record) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // R1
    if (tail - head_seen_ > mask_) {
      head_seen_ = head_.load(std::memory_order_acquire);                                         // R4, R5
      if (tail - head_seen_ > mask_) {                                                            // R2
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_release);  // R1, R6
        return false;
      }
    }
    cells_[tail & mask_] = record;
    tail_.store(tail + 1, std::memory_order_release);  // R3
    return true;
  }

  // Consumer's thread. Returns false if the ring was empty.
  bool pop(Record& record) noexcept {
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
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_acquire); }  // R6
  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

 private:
  static constexpr std::size_t kCacheLine = 64;

  const std::size_t mask_;
  const std::unique_ptr<Record[]> cells_;

  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t head_seen_ = 0;
  std::atomic<std::uint64_t> dropped_{0};

  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};
  std::uint64_t tail_seen_ = 0;
};

}  // namespace forebay::measure
