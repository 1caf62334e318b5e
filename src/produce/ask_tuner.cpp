#include "ask_tuner.hpp"

namespace forebay::produce {

// All three at once: readers have no requests although decoders have no bytes and the ring is not
// full. Then what limits is how many samples were asked for. One window may show that by chance, so
// windows that do are counted, and the others taken off.
bool AskTuner::look(const WorkerWindow& window, const WorkerCounts& counts) noexcept {
  if (window.decoded == 0) return false;  // nothing comes, however much is asked for
  const bool is_short = window.unasked_s > kUnasked * counts.io * window.seconds &&
                        window.starved_s > kStarved * counts.decode * window.seconds &&
                        window.blocked_s < kBlocked * window.seconds;
  if (!is_short) {
    if (windows_ > 0) --windows_;
    return false;
  }
  if (++windows_ < kWindows) return false;
  windows_ = 0;
  return true;
}

}  // namespace forebay::produce
