#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <span>

namespace forebay {

// While it lives, the given signals set a flag instead of ending the process. One at a time.
class StopOnSignal {
 public:
  explicit StopOnSignal(std::span<const int> signals);
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  [[nodiscard]] static const std::atomic<bool>& flag() noexcept;

 private:
  static constexpr std::size_t kMost = 4;

  std::array<int, kMost> signals_{};
  std::array<struct sigaction, kMost> previous_{};
  std::size_t count_ = 0;
};

// Ends the process with this exit code when it still runs after the given time. For the way out of a run that was
// told to stop: an mpirun that is ending its job no longer answers MPI_Finalize, and would kill the ranks later. What
// matters must be written and flushed before.
void exit_at_the_latest(std::chrono::milliseconds after, int exit_code);

}  // namespace forebay
