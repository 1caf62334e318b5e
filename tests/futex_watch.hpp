#pragma once

#include <atomic>
#include <functional>
#include <utility>

namespace forebay::testing {

// Counts how often threads are about to sleep on a futex, and to wake those that sleep, by way of syscall(): WaitPoint
// does it so. A program that links futex_watch.cpp has its own syscall().
class FutexWatch {
 public:
  // `at_first_wait` is called before the first sleep, by its thread.
  explicit FutexWatch(std::function<void()> at_first_wait = {}) : at_first_wait_(std::move(at_first_wait)) {}

  // Has the calling thread's counted, for the scope.
  class OfThisThread {
   public:
    explicit OfThisThread(FutexWatch& watch) noexcept;
    ~OfThisThread();
    OfThisThread(const OfThisThread&) = delete;
    OfThisThread& operator=(const OfThisThread&) = delete;
  };

  // What syscall() calls.
  void sees(long number, long operation);

  std::atomic<int> waits{0};
  std::atomic<int> wakes{0};

 private:
  std::function<void()> at_first_wait_;
};

}  // namespace forebay::testing
