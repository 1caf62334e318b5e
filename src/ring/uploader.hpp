#pragma once

#include <concurrentqueue/blockingconcurrentqueue.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <thread>

#include "base/worker_status.hpp"
#include "copies.hpp"
#include "slot_ring.hpp"
#include "slot_store.hpp"

namespace forebay {

// Copies batches that are complete in staging memory into their slots on the device. A thread of its own, so that
// decoders do not wait for the device, and what CUDA minds while another thread captures a graph is done here.
class Uploader {
 public:
  // Called from the thread when the device fails; must not throw.
  using Failed = std::function<void(std::exception_ptr error)>;

  // Starts the thread. Throws Error when it cannot be had. REQUIRES: store->staging().
  Uploader(std::shared_ptr<SlotStore> store, SlotRing& ring, Failed failed);
  ~Uploader() { stop(); }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  // The batch of a slot is complete. Any thread; what it wrote is handed over. Throws std::bad_alloc.
  void push(std::uint32_t slot) {
    if (!complete_.enqueue(slot)) throw std::bad_alloc();
  }
  // Publishes what is on its way to the device, then joins the thread. Idempotent; the thread that constructed it.
  void stop();

  [[nodiscard]] WorkerStatus& status() noexcept { return status_; }
  [[nodiscard]] const WorkerStatus& status() const noexcept { return status_; }

 private:
  static constexpr std::uint32_t kStop = UINT32_MAX;

  void run() noexcept;
  void work();

  WorkerStatus status_;
  std::shared_ptr<SlotStore> store_;
  Failed failed_;
  Copies copies_;
  moodycamel::BlockingConcurrentQueue<std::uint32_t> complete_;
  std::thread thread_;
};

}  // namespace forebay
