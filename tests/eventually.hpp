#pragma once

#include <chrono>
#include <thread>

#include "base/wait.hpp"

namespace forebay::testing {

// The bound of every wait of a test: far beyond what the slowest machine needs.
inline WaitPoint::Clock::time_point limit() { return WaitPoint::Clock::now() + std::chrono::seconds(60); }

// For states that are not announced: true once the condition holds, false at the limit.
template <typename Condition>
bool eventually(Condition&& condition) {
  const auto deadline = limit();
  while (!condition()) {
    if (WaitPoint::Clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace forebay::testing
