#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "wait.hpp"
#include "worker_status.hpp"

namespace forebay {

// Threads that do one kind of work, as many at a time as are wanted: the others are parked between two pieces of work,
// or not started yet.
class WorkerPool {
 public:
  // What each thread runs, with its number from 0 and its status; it must ask may_work() before each piece of work and
  // end when that is false, or when there is no work any more. Must not throw.
  using Body = std::function<void(unsigned thread, WorkerStatus& status)>;

  // What the threads do, and how they are ended.
  struct Work {
    Body body;
    // Closes the threads' queues, so that none finds work or waits for any. Called by stop(), so perhaps more than
    // once. Must not throw.
    std::function<void()> end;
  };

  // Starts `wanted` threads, named `name` and their number; there may be `most` in all. The body may run before the
  // constructor returns. Throws Error when the system allows no more threads, after ending those that were started.
  // REQUIRES: 1 <= wanted <= most.
  WorkerPool(std::string name, Work work, unsigned wanted, unsigned most);
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Sets how many threads work from now on, clamped to 1 ... `most`: starts those that are missing, and parks the
  // others after their current piece of work. When the system allows no more threads there are fewer, and wanted() says
  // how many. One thread at a time, and not during stop().
  void want(unsigned threads) noexcept;

  // Called by a thread of the pool between two pieces of work: parks it while it is not wanted. False when stopped.
  [[nodiscard]] bool may_work(unsigned thread);

  // Ends the work and joins all threads. May be called again, by the same thread.
  void stop();

  [[nodiscard]] unsigned wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  [[nodiscard]] unsigned most() const noexcept { return static_cast<unsigned>(statuses_.size()); }
  // One per possible thread; any thread may read them while the pool exists.
  [[nodiscard]] std::span<const WorkerStatus> statuses() const noexcept { return statuses_; }
  // The same, for attaching timelines (WorkerStatus::timeline).
  [[nodiscard]] std::span<WorkerStatus> statuses() noexcept { return statuses_; }
  // Processor time that the threads have used; none once they are stopped. Any thread.
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const noexcept { return cpu_spent(statuses_); }

 private:
  void start_one();

  WaitPoint gate_;
  std::string name_;
  std::vector<WorkerStatus> statuses_;
  std::vector<std::thread> threads_;
  Work work_;
  std::atomic<unsigned> wanted_;
  std::atomic<bool> stopped_{false};
};

}  // namespace forebay
