#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "wait.hpp"

namespace forebay {

// An ending waits this long for each of its pieces: a read of a dead file system never returns, nor does a write, and
// whoever ends must not wait for them for ever.
inline constexpr std::chrono::seconds kEndPatience{10};
// The same for a state that is being written: it is worth more than a thread. Where policy.watchdog_s is longer, that.
inline constexpr std::chrono::seconds kSavePatience{30};

// A piece of an ending that may never return, such as the join of a thread that reads. It runs on a thread of its own,
// so that whoever ends can leave it behind. What the work uses must then be left as it is, for ever.
class EndingWork {
 public:
  using Clock = WaitPoint::Clock;

  // Runs `work`, which must not throw; here and now where the system refuses a thread.
  explicit EndingWork(std::function<void()> work);
  // Does not wait: work that has not ended is left behind.
  ~EndingWork();
  EndingWork(const EndingWork&) = delete;
  EndingWork& operator=(const EndingWork&) = delete;

  // Waits until the work has ended, at most until `deadline`; whether it has. What the work did is then seen.
  [[nodiscard]] bool ends_by(Clock::time_point deadline);

 private:
  struct Shared {
    std::function<void()> work;
    std::atomic<bool> has_ended{false};
    WaitPoint ended;
  };

  std::shared_ptr<Shared> shared_;  // by the thread, which may outlive this
  std::thread thread_;
};

// Has `work` done on a thread of its own, and throws what it throws. False: it did not end within `patience`, or
// `is_over`, asked every 50 ms, said to wait no longer. It is left behind then, so it must own what it uses.
[[nodiscard]] bool ends_within(std::chrono::seconds patience, std::function<void()> work,
                               const std::function<bool()>& is_over = {});

}  // namespace forebay
