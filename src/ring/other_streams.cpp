#include "other_streams.hpp"

#include <algorithm>

namespace forebay::ring {

void OtherStreams::add(std::uint64_t step, StreamView other, std::optional<StreamView> after) {
  const std::lock_guard lock(mutex_);
  if (is_known(step, other)) return;
  if (after) {
    device_.check_capture(*after);
    put_after(*after, other);
  }
  uses_.push_back({.step = step, .stream = other});
  count_.store(uses_.size(), std::memory_order_relaxed);
}

void OtherStreams::end(std::uint64_t step, StreamView stream) {
  // Relaxed: the thread that ends a lease has acquired what was done with it.
  if (count_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  const auto ended = std::partition(uses_.begin(), uses_.end(), [step](const Use& use) { return use.step != step; });
  if (ended != uses_.end()) device_.check_capture(stream);
  for (auto use = ended; use != uses_.end(); ++use) {
    device_.check_capture(use->stream);
    put_after(use->stream, stream);
  }
  uses_.erase(ended, uses_.end());
  count_.store(uses_.size(), std::memory_order_relaxed);
}

bool OtherStreams::is_known(std::uint64_t step, StreamView stream) const {
  return std::ranges::any_of(uses_,
                             [&](const Use& use) { return use.step == step && use.stream.handle == stream.handle; });
}

void OtherStreams::put_after(StreamView before, StreamView after) {
  device_.record(event_, before);
  device_.wait(after, event_);
}

}  // namespace forebay::ring
