#include "run_ahead.hpp"

namespace forebay::ring {

// A mark is reused size_ steps later. A lease held for longer than that no longer has a mark and is
// not waited for. At most max_leases - 1 leases are older than the previous step, so with that many
// extra marks this happens only if a trainer never ends a lease.
RunAhead::RunAhead(device::Device& device, std::uint32_t steps, std::uint32_t max_leases)
    : device_(device),
      steps_(steps),
      max_leases_(max_leases),
      size_(steps + max_leases + 1),
      marks_(std::make_unique<Mark[]>(size_)) {
  for (std::uint32_t i = 0; i < size_; ++i) marks_[i].event = device.make_event();
}

// The event is recorded before the count is stored with release, so whoever finds the count
// complete finds the event of this step too.
void RunAhead::end(std::uint64_t step, StreamView stream) {
  Mark& mark = marks_[step % size_];
  // Relaxed: a mark belongs to one step for size_ steps. If a lease outlived that, the later step keeps it.
  if (mark.ended.load(std::memory_order_relaxed) > step) return;
  device_.record(mark.event, stream);
  mark.ended.store(step + 1, std::memory_order_release);
}

bool RunAhead::wait(std::uint64_t step) {
  // `count` counts the steps up to the one in question. While fewer than max_leases leases are held, one of the last
  // max_leases steps has ended; more are held only while the run ends.
  for (std::uint64_t looks = 0; looks < max_leases_ && step >= steps_ + looks; ++looks) {
    const std::uint64_t count = step - steps_ - looks + 1;
    Mark& mark = marks_[(count - 1) % size_];
    // Acquire pairs with end(): the record was made.
    if (mark.ended.load(std::memory_order_acquire) != count) continue;
    if (device_.is_complete(mark.event)) return false;
    device_.synchronize(mark.event);
    return true;
  }
  return false;
}

}  // namespace forebay::ring
