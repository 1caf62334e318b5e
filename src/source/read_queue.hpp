#pragma once

#include <concurrentqueue/concurrentqueue.h>
#include <concurrentqueue/lightweightsemaphore.h>
#include <atomic>
#include <forebay/detail/stages.hpp>
#include <new>
#include <optional>

namespace forebay {

// Requests to the reader threads: in the order they were pushed by one thread, urgent ones before all others. This
// is moodycamel's BlockingConcurrentQueue, taken apart so that two queues share one semaphore.
// Every member may be called from any thread at the same time.
class ReadQueue {
 public:
  // Never waits. Throws std::bad_alloc. After close() the request is dropped.
  void push(const ReadRequest& request) { push_to(requests_, request); }

  // For the replacement of a bad sample: its slot is already waiting, while those behind it have only begun.
  void push_urgent(const ReadRequest& request) { push_to(urgent_, request); }

  // Waits for a request. Nothing once the queue is closed, even when requests are left.
  [[nodiscard]] std::optional<ReadRequest> take() {
    while (!available_.wait()) {  // false only when a signal interrupted it
    }
    if (closed_.load(std::memory_order_acquire)) {
      available_.signal();  // passes the wake-up on to the next waiting thread
      return std::nullopt;
    }
    // A permit means that one of the queues holds a request for this thread, though try_dequeue may miss it at first.
    ReadRequest request;
    while (!urgent_.try_dequeue(request) && !requests_.try_dequeue(request)) {
    }
    return request;
  }

  // Wakes every present and future take(). May be called again.
  void close() noexcept {
    closed_.store(true, std::memory_order_release);
    available_.signal();
  }

 private:
  using Queue = moodycamel::ConcurrentQueue<ReadRequest, WorkerQueueTraits>;

  void push_to(Queue& queue, const ReadRequest& request) {
    if (!queue.enqueue(request)) throw std::bad_alloc();
    available_.signal();
  }

  Queue urgent_;
  Queue requests_;
  moodycamel::LightweightSemaphore available_{0, WorkerQueueTraits::MAX_SEMA_SPINS};
  std::atomic<bool> closed_{false};
};

}  // namespace forebay
