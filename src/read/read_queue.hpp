#pragma once

#include <concurrentqueue/concurrentqueue.h>
#include <concurrentqueue/lightweightsemaphore.h>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <new>
#include <span>

#include "encoded_queue.hpp"

namespace forebay {

// Requests to the reader threads: in the order in which one thread pushed them, urgent ones before all others. This is
// moodycamel's BlockingConcurrentQueue, taken apart so that two queues share one semaphore.
// Every member may be called from any thread at the same time.
class ReadQueue {
 public:
  // Never waits. Throws std::bad_alloc. After close() the requests are dropped.
  void push(std::span<const ReadRequest> requests) { push_to(requests_, requests); }

  // For the replacement of a bad sample, and for requests that a reader did not get to: their slot is already waiting,
  // while later ones have only begun to fill.
  void push_urgent(std::span<const ReadRequest> requests) { push_to(urgent_, requests); }

  // Waits for a request, then takes as many as there are and as fit. Returns their number: 0 once the queue is closed,
  // even if requests are left. REQUIRES: !out.empty().
  [[nodiscard]] std::size_t take(std::span<ReadRequest> out) {
    std::ptrdiff_t permits = 0;
    while (permits <= 0) permits = available_.waitMany(std::ssize(out));  // a signal may interrupt it
    if (closed_.load(std::memory_order_acquire)) {
      available_.signal();  // passes the wake-up on to the next waiting thread
      return 0;
    }
    // A permit means that one of the queues holds a request for this thread, though try_dequeue may miss it at first.
    const auto wanted = static_cast<std::size_t>(permits);
    std::size_t taken = 0;
    while (taken < wanted) {
      taken += urgent_.try_dequeue_bulk(&out[taken], wanted - taken);
      if (taken < wanted) taken += requests_.try_dequeue_bulk(&out[taken], wanted - taken);
    }
    return wanted;
  }

  // Wakes every present and future take(). May be called again.
  void close() noexcept {
    closed_.store(true, std::memory_order_release);
    available_.signal();
  }

 private:
  using Queue = moodycamel::ConcurrentQueue<ReadRequest, WorkerQueueTraits>;

  void push_to(Queue& queue, std::span<const ReadRequest> requests) {
    if (requests.empty()) return;
    if (!queue.enqueue_bulk(requests.data(), requests.size())) throw std::bad_alloc();
    available_.signal(std::ssize(requests));
  }

  Queue urgent_;
  Queue requests_;
  moodycamel::LightweightSemaphore available_{0, WorkerQueueTraits::MAX_SEMA_SPINS};
  std::atomic<bool> closed_{false};
};

}  // namespace forebay
