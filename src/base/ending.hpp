#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "wait.hpp"

namespace forebay {

// How long a shutdown waits for each of its parts: a read or write on a dead file system never returns, and a shutdown
// must not wait for it forever.
inline constexpr std::chrono::seconds kEndPatience{10};
// Likewise for a state being written, which is worth more than a thread; or policy.watchdog_s, if that is longer.
inline constexpr std::chrono::seconds kSavePatience{30};

// A part of a shutdown that may never return, such as joining a reader thread. It runs on a thread of its own, so that
// the shutdown can leave it behind. Whatever it uses must then never be changed or freed.
class EndingWork {
 public:
  using Clock = WaitPoint::Clock;

  // Runs `work`, which must not throw; on the calling thread if the system refuses a new one.
  explicit EndingWork(std::function<void()> work);
  // Does not wait: unfinished work is left behind.
  ~EndingWork();
  EndingWork(const EndingWork&) = delete;
  EndingWork& operator=(const EndingWork&) = delete;

  // Waits until the work has ended, at most until `deadline`. Returns whether it has; its effects are then visible.
  [[nodiscard]] bool ends_by(Clock::time_point deadline);

 private:
  struct Shared {
    std::function<void()> work;
    std::atomic<bool> has_ended{false};
    WaitPoint ended;
  };

  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this
  std::thread thread_;
};

// Runs `work` on a thread of its own and rethrows what it throws. Returns false if it did not end within `patience`, or
// if `is_over`, called every 50 ms, said to wait no longer. It is then left behind, so it must own what it uses.
[[nodiscard]] bool ends_within(std::chrono::seconds patience, std::function<void()> work,
                               const std::function<bool()>& is_over = {});

}  // namespace forebay
