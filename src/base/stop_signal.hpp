#pragma once

#include <atomic>

#include "wait.hpp"

namespace forebay {

// Thrown by every wait of a reader once its pool is stopped. Not a std::exception, so that nothing on the way mistakes
// it for an error of the sample.
struct Stopped {};

// Tells reader threads to stop; they sleep here, too. Any thread may call any member.
class StopSignal {
 public:
  void raise() noexcept {
    raised_.store(true, std::memory_order_seq_cst);
    point_.notify_all();
  }

  [[nodiscard]] bool is_raised() const noexcept { return raised_.load(std::memory_order_seq_cst); }

  // Sleeps until the deadline (max() = no deadline). Throws Stopped as soon as the signal is raised.
  void sleep_until(WaitPoint::Clock::time_point deadline) {
    if (point_.wait_until(deadline, [this] { return is_raised(); })) throw Stopped();
  }

 private:
  WaitPoint point_;
  std::atomic<bool> raised_{false};
};

}  // namespace forebay
