#pragma once

#include <concurrentqueue/concurrentqueue.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <new>
#include <span>

#include "queue_gate.hpp"
#include "requests.hpp"

namespace forebay::read {

// Encoded samples on their way from readers to decoders, or requests that decoders are to read
// themselves; those of earlier batches first. A moodycamel queue keeps only the order of each
// producer: when readers are ahead of the decoders, later batches would be decoded before earlier
// ones, and batches would arrive in bursts. So there is one queue for each batch under way (or for
// a few batches, if there may be many), and all queues share one gate. The byte budget bounds the
// samples, and the number of batches under way bounds the requests. Any thread may call push(),
// take() and size_guess() at any time; one thread calls begin_turn(), one close().
class EncodedQueue {
 public:
  // `most_turns`: batches that may be under way at one time (the ring's capacity), at least 1.
  explicit EncodedQueue(std::uint32_t most_turns)
      : group_((most_turns + kMostBuckets - 1) / kMostBuckets),
        most_turns_(most_turns),
        // A window of turns that begins within a group touches one more group.
        buckets_((most_turns + group_ - 1) / group_ + 1) {}

  // Called by the issuer before it requests the samples of this turn: no turn below turn - most_turns + 1 is under way.
  void begin_turn(std::uint64_t turn) noexcept {
    first_turn_.store(turn < most_turns_ ? 0 : turn - most_turns_ + 1, std::memory_order_relaxed);
  }

  // Never waits. Throws std::bad_alloc. After close() the samples are dropped.
  void push(std::span<EncodedSample> samples) {
    while (!samples.empty()) {
      // The samples that a reader hands over at once are mostly of one turn.
      const std::uint64_t turn = samples.front().request.turn;
      std::size_t count = 1;
      while (count < samples.size() && samples[count].request.turn == turn) ++count;
      push_to(bucket(turn), samples.first(count));
      samples = samples.subspan(count);
    }
  }

  // Waits for a sample, then takes as many as there are and as fit. Returns their number: 0 once the queue is closed,
  // even if samples are left; `out` is then unspecified. REQUIRES: !out.empty().
  [[nodiscard]] std::size_t take(std::span<EncodedSample> out) {
    const std::size_t permits = gate_.take(out.size());
    std::size_t taken = 0;
    while (taken < permits) taken += try_take(out.subspan(taken, permits - taken));
    return taken;
  }

  // Samples that have not been taken yet, roughly.
  [[nodiscard]] std::size_t size_guess() const noexcept { return gate_.size_guess(); }

  // Wakes every present and future take(). May be called again.
  void close() noexcept { gate_.close(); }

 private:
  // Each bucket costs memory per reader and a check per sample.
  static constexpr std::uint32_t kMostBuckets = 32;

  struct alignas(64) Bucket {
    // An upper bound: raised before samples go in, lowered after they came out. So a bucket that looks empty is empty,
    // and its queue need not be searched.
    std::atomic<std::int64_t> samples{0};
    moodycamel::ConcurrentQueue<EncodedSample> queue{0};
  };

  [[nodiscard]] Bucket& bucket(std::uint64_t turn) noexcept { return buckets_[turn / group_ % buckets_.size()]; }

  void push_to(Bucket& bucket, std::span<EncodedSample> samples) {
    bucket.samples.fetch_add(std::ssize(samples), std::memory_order_relaxed);
    if (!bucket.queue.enqueue_bulk(std::make_move_iterator(samples.begin()), samples.size())) throw std::bad_alloc();
    gate_.add(samples.size());
  }

  // Takes from the buckets in the order of their turns, as many samples as fit.
  [[nodiscard]] std::size_t try_take(std::span<EncodedSample> out) {
    std::size_t taken = 0;
    const std::uint64_t first = first_turn_.load(std::memory_order_relaxed) / group_;
    for (std::size_t i = 0; i < buckets_.size() && taken < out.size(); ++i) {
      Bucket& bucket = buckets_[(first + i) % buckets_.size()];
      if (bucket.samples.load(std::memory_order_relaxed) <= 0) continue;
      const std::size_t count = bucket.queue.try_dequeue_bulk(&out[taken], out.size() - taken);
      bucket.samples.fetch_sub(static_cast<std::int64_t>(count), std::memory_order_relaxed);
      taken += count;
    }
    return taken;
  }

  const std::uint32_t group_;  // turns that share a bucket
  const std::uint32_t most_turns_;
  std::deque<Bucket> buckets_;
  std::atomic<std::uint64_t> first_turn_{0};
  QueueGate gate_;
};

// Requests to the reader threads: in the order in which one thread pushed them, urgent ones before
// all others. Two queues share one gate. Any thread may call any member at any time.
class ReadQueue {
 public:
  // Never waits. Throws std::bad_alloc. After close() the requests are dropped.
  void push(std::span<const ReadRequest> requests) { push_to(requests_, requests); }

  // For the replacement of a bad sample, and for requests that a reader did not get to: their slot is already waiting,
  // while later slots have only begun to fill.
  void push_urgent(std::span<const ReadRequest> requests) { push_to(urgent_, requests); }

  // Waits for a request, then takes as many as there are and as fit. Returns their number: 0 once the queue is closed,
  // even if requests are left. REQUIRES: !out.empty().
  [[nodiscard]] std::size_t take(std::span<ReadRequest> out) {
    const std::size_t wanted = gate_.take(out.size());
    std::size_t taken = 0;
    while (taken < wanted) {
      taken += urgent_.try_dequeue_bulk(&out[taken], wanted - taken);
      if (taken < wanted) taken += requests_.try_dequeue_bulk(&out[taken], wanted - taken);
    }
    return wanted;
  }

  // Wakes every present and future take(). May be called again.
  void close() noexcept { gate_.close(); }

 private:
  using Queue = moodycamel::ConcurrentQueue<ReadRequest>;

  void push_to(Queue& queue, std::span<const ReadRequest> requests) {
    if (requests.empty()) return;
    if (!queue.enqueue_bulk(requests.data(), requests.size())) throw std::bad_alloc();
    gate_.add(requests.size());
  }

  Queue urgent_;
  Queue requests_;
  QueueGate gate_;
};

}  // namespace forebay::read
