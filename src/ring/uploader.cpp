#include "uploader.hpp"

#include <utility>

#include "base/thread.hpp"

namespace forebay::ring {

Uploader::Uploader(std::shared_ptr<SlotStore> store, SlotRing& ring, Failed failed)
    : store_(std::move(store)),
      failed_(std::move(failed)),
      copies_(*store_, ring),
      complete_(store_->size()),
      thread_(start_thread("forebay-copy", [this] { run(); })) {}

void Uploader::stop() {
  if (!thread_.joinable()) return;
  while (!complete_.enqueue(kStop)) std::this_thread::yield();  // out of memory, until others have freed some
  thread_.join();
}

void Uploader::run() noexcept {
  status_.thread_begins();
  try {
    work();
  } catch (...) {
    failed_(std::current_exception());
  }
  status_.set(WorkerStatus::Activity::stopped);
  status_.thread_ends();
}

// Sleeps only while no copy is under way. Otherwise it waits for the oldest copy when no further
// batch is complete, so that a batch is published as soon as it is there even if nothing follows
// it. A batch completed during that wait starts when it ends: late by no more than a copy.
void Uploader::work() {
  store_->device().enter_thread();
  std::uint32_t slot = kStop;
  for (;;) {
    if (copies_.empty()) {
      status_.set(WorkerStatus::Activity::idle);
      complete_.wait_dequeue(slot);
    } else if (!complete_.try_dequeue(slot)) {
      copies_.publish_oldest();
      continue;
    }
    if (slot == kStop) break;
    status_.set(WorkerStatus::Activity::copying);  // until the next one is started, or all are complete
    copies_.start(slot);
    copies_.publish_complete();
  }
  while (!copies_.empty()) copies_.publish_oldest();
}

}  // namespace forebay::ring
