#pragma once

#include <atomic>
#include <functional>
#include <utility>

namespace forebay::testing {

// Counts how often threads are about to sleep on a futex, and to wake sleeping ones, through
// syscall(), as WaitPoint does. A program that links futex_watch.cpp has its own syscall().
class FutexWatch {
 public:
  // `at_first_wait` is called before the first sleep, on the sleeping thread.
  explicit FutexWatch(std::function<void()> at_first_wait = {}) : at_first_wait_(std::move(at_first_wait)) {}

  // Counts calls of this thread while the object exists.
  class OfThisThread {
   public:
    explicit OfThisThread(FutexWatch& watch) noexcept;
    ~OfThisThread();
    OfThisThread(const OfThisThread&) = delete;
    OfThisThread& operator=(const OfThisThread&) = delete;
  };

  // Called by syscall().
  void sees(long number, long operation);

  std::atomic<int> waits{0};
  std::atomic<int> wakes{0};

 private:
  std::function<void()> at_first_wait_;
};

}  // namespace forebay::testing
