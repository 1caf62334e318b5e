#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <span>

namespace forebay {

// While an object exists, the given signals set a flag instead of ending the process. One object at a time.
class StopOnSignal {
 public:
  explicit StopOnSignal(std::span<const int> signals);
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  [[nodiscard]] static const std::atomic<bool>& flag() noexcept;
  // Whether the launcher, this process's parent, sent a SIGTERM.
  [[nodiscard]] static bool launcher_ends_the_job() noexcept;

 private:
  static constexpr std::size_t kMost = 4;

  std::array<int, kMost> signals_{};
  std::array<struct sigaction, kMost> previous_{};
  std::size_t count_ = 0;
};

// Ends the process with this exit code if it is still running after the given time. For the end of a stopped run, once
// everything that matters is written and flushed.
void exit_at_the_latest(std::chrono::milliseconds after, int exit_code);

}  // namespace forebay
