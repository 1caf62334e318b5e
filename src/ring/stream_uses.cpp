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

Staging::Staging(device::Device& device, std::size_t batch_bytes, std::uint32_t batches)
    : device_(device),
      batch_bytes_(batch_bytes),
      arena_(device.allocate_staging(batch_bytes * batches)),
      base_(arena_->bytes().data()) {
  for (std::uint32_t i = 0; i < batches; ++i) copied_.push_back(device.make_event());
}

void Staging::copy(std::uint64_t turn, std::byte* to, StreamUses& uses, StreamView stream) {
  uses.put_after(stream);  // S3
  device_.copy_in(to, place(turn), batch_bytes_, stream);
}

OutputTensors::OutputTensors(device::Device& device, std::size_t bytes, std::uint32_t count)
    : bytes_(bytes), arena_(device.allocate(bytes * count)), base_(arena_->bytes().data()) {
  for (std::uint32_t i = 0; i < count; ++i) outputs_.push_back(std::make_unique<OutputTensor>(device));
}

OutputTensors::Taken OutputTensors::take() noexcept {
  for (std::uint32_t i = 0; i < outputs_.size(); ++i) {
    // Acquire pairs with end(): the use's end is on its stream, and the thread's reads of the tensor are done.
    if (outputs_[i]->uses_held.load(std::memory_order_acquire) != 0) continue;
    outputs_[i]->uses_held.store(1, std::memory_order_relaxed);
    return {.output = i};
  }
  // Acquire for the same reason: its last use may have ended in the meantime.
  return {.output = 0, .is_shared = outputs_[0]->uses_held.fetch_add(1, std::memory_order_acquire) != 0};
}

void OutputTensors::end(std::uint32_t output, StreamView stream) {
  struct End {
    std::atomic<std::uint32_t>& uses_held;
    ~End() { uses_held.fetch_sub(1, std::memory_order_release); }
  } const at_the_end{outputs_[output]->uses_held};
  outputs_[output]->uses.end(stream);
}

}  // namespace forebay::ring
