#pragma once

#include <concurrentqueue/blockingconcurrentqueue.h>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <new>
#include <span>
#include <vector>

#include <forebay/detail/pipeline.hpp>

// What stands between the reader threads and the decoder threads. Not installed.
namespace forebay {

// moodycamel's defaults with a short spin: a worker that waits must leave its core to the decoders and the trainer.
struct WorkerQueueTraits : moodycamel::ConcurrentQueueDefaultTraits {
  static constexpr int MAX_SEMA_SPINS = 64;
};

// Encoded samples from readers to decoders. Not bounded by itself: the byte budget of the readers bounds it.
// Every member may be called from any thread at the same time.
class EncodedQueue {
 public:
  // Never waits. Throws std::bad_alloc. After close() the samples are dropped.
  void push(std::span<EncodedSample> samples) {
    if (samples.empty()) return;
    if (!queue_.enqueue_bulk(std::make_move_iterator(samples.begin()), samples.size())) throw std::bad_alloc();
  }

  // Waits for a sample, then takes what there is, as many as fit. Returns their number: 0 once the queue is closed, even
  // when samples are left; `out` is then unspecified. REQUIRES: !out.empty().
  [[nodiscard]] std::size_t take(std::span<EncodedSample> out) {
    const std::size_t taken = queue_.wait_dequeue_bulk(out.begin(), out.size());
    if (!closed_.load(std::memory_order_acquire)) return taken;
    wake_one();  // passes the wake-up on to the next waiting thread
    return 0;
  }

  // Samples that nobody has taken yet, roughly.
  [[nodiscard]] std::size_t size_guess() const { return queue_.size_approx(); }

  // Wakes every present and future take(). May be called again.
  void close() {
    closed_.store(true, std::memory_order_release);
    wake_one();
  }

 private:
  void wake_one() {
    if (!queue_.enqueue(EncodedSample{})) throw std::bad_alloc();
  }

  moodycamel::BlockingConcurrentQueue<EncodedSample, WorkerQueueTraits> queue_;
  std::atomic<bool> closed_{false};
};

// Where the bytes of a sample go once they are decoded.
class BufferReturn {
 public:
  virtual ~BufferReturn() = default;
  // Gives the buffer back for reuse and buffer.size() bytes to the budget: the size must be as it was received.
  // Any thread.
  virtual void give_back(std::vector<std::byte> buffer) noexcept = 0;
};

// What decoder threads do with a sample: decode it and put it into its place.
class SampleHandler {
 public:
  virtual ~SampleHandler() = default;
  // `thread` is the number of the calling thread, from 0, for scratch memory of its own; threads call at the same
  // time. Must not wait for other samples. Returns how many samples were put into their places, of those that the
  // request asks for. Throws SampleError when none of them can be served; anything else that is thrown ends the run.
  virtual std::uint32_t handle(const EncodedSample& sample, unsigned thread) = 0;
};

}  // namespace forebay
