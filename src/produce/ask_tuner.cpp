#include "ask_tuner.hpp"

namespace forebay {

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

}  // namespace forebay
