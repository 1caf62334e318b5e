#include "reduction_wait.hpp"

#include <thread>

namespace forebay {

std::chrono::nanoseconds wait_for(Communicator& communicator, std::size_t channel,
                                  const std::function<void()>& while_waiting) {
  if (communicator.test(channel)) return {};
  // Spinning would take a core from this rank's decoders, and on a crowded node from the rank that is behind.
  constexpr int kYields = 32;
  constexpr std::chrono::microseconds kSleep{50};
  const auto start = std::chrono::steady_clock::now();
  for (int polls = 0; !communicator.test(channel); ++polls) {
    if (while_waiting) while_waiting();
    if (polls < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
  return std::chrono::steady_clock::now() - start;
}

}  // namespace forebay
