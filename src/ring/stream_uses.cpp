#include "stream_uses.hpp"

namespace forebay::ring {
namespace {

// Held for two calls of the device's driver. Threads meet here only when leases of one batch end on two at once.
class FlagLock {
 public:
  explicit FlagLock(std::atomic_flag& busy) noexcept : busy_(busy) {
    // Acquire pairs with the release below: used_ and the event are as the previous thread left them.
    while (busy_.test_and_set(std::memory_order_acquire)) busy_.wait(true, std::memory_order_relaxed);
  }
  ~FlagLock() {
    busy_.clear(std::memory_order_release);
    busy_.notify_one();
  }
  FlagLock(const FlagLock&) = delete;
  FlagLock& operator=(const FlagLock&) = delete;

 private:
  std::atomic_flag& busy_;
};

}  // namespace

// One event serves all streams: it is made to wait for what it stood for before it is recorded
// anew, so it always stands for every use so far.
void StreamUses::end(StreamView stream) {
  device_.check_capture(stream);
  const FlagLock lock(busy_);
  put_after(stream);
  device_.record(event_, stream);
  used_ = true;
}

void StreamUses::put_after(StreamView stream) {
  if (used_) device_.wait(stream, event_);
}

}  // namespace forebay::ring
