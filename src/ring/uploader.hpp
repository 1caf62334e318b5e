#pragma once

#include <concurrentqueue/blockingconcurrentqueue.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <thread>

#include "base/thread.hpp"
#include "copies.hpp"
#include "slot_ring.hpp"
#include "slot_store.hpp"

namespace forebay::ring {

// Copies complete batches from staging memory into their slots on the device. It has its own thread, so that decoders
// do not wait for the device, and so that calls that CUDA forbids while another thread captures a graph are made in one
// place.
class Uploader {
 public:
  // Called on that thread if the device fails; must not throw.
  using Failed = std::function<void(std::exception_ptr error)>;

  // Starts the thread. Throws Error if the system refuses it. REQUIRES: store->staging().
  Uploader(std::shared_ptr<SlotStore> store, SlotRing& ring, Failed failed);
  ~Uploader() { stop(); }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  // Hands over the complete batch in a slot. Any thread; its writes become visible to the copying thread. Throws
  // std::bad_alloc.
  void push(std::uint32_t slot) {
    if (!complete_.enqueue(slot)) throw std::bad_alloc();
  }
  // Publishes the batches being copied to the device, then joins the thread. Idempotent. The constructing thread only.
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

}  // namespace forebay::ring
