#include "run_ahead.hpp"

namespace forebay {

// A mark's next step is size_ later. A lease that is held for longer than that has no mark left and is not waited for;
// at most max_leases - 1 are older than the step before, so with so many more marks this is an oddity of trainers that
// keep a lease for good.
RunAhead::RunAhead(Device& device, std::uint32_t steps, std::uint32_t max_leases)
    : device_(device),
      steps_(steps),
      max_leases_(max_leases),
      size_(steps + max_leases + 1),
      marks_(std::make_unique<Mark[]>(size_)) {
  for (std::uint32_t i = 0; i < size_; ++i) marks_[i].event = device.make_event();
}

void RunAhead::end(std::uint64_t step, StreamView stream) {
  Mark& mark = marks_[step % size_];
  // Relaxed: a mark is one step's for size_ steps. Where a lease outlived that, the later step keeps it.
  if (mark.ended.load(std::memory_order_relaxed) > step) return;
  device_.record(mark.event, stream);
  mark.ended.store(step + 1, std::memory_order_release);
}

bool RunAhead::wait(std::uint64_t step) {
  // `count` is that of the steps up to the one in question. Where fewer than max_leases are held, one of so many has
  // ended; more are held only while the run ends.
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

}  // namespace forebay
