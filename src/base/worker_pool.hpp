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

// Threads that do one kind of work, as many of them at a time as are wanted: the others are parked between two pieces
// of work, or not started yet.
class WorkerPool {
 public:
  // What each thread runs, with its number from 0 and its status; it must ask may_work() before each piece of work and
  // end when that is false, or when there is no work any more. Must not throw.
  using Body = std::function<void(unsigned thread, WorkerStatus& status)>;

  // What the threads do, and how they are brought to an end.
  struct Work {
    Body body;
    // Sees to it that a working thread finds no work and that none waits for any: closes their queues. Called by
    // stop(), so perhaps more than once. Must not throw.
    std::function<void()> end;
  };

  // Starts `wanted` threads, called `name` and their number; there may be `most` in all. The body may be running before
  // the constructor returns. Throws Error when the system has no more threads, once those that were started have ended.
  // REQUIRES: 1 <= wanted <= most.
  WorkerPool(std::string name, Work work, unsigned wanted, unsigned most);
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Threads that are to work from now on, brought between 1 and `most`; starts those that are missing, and parks the
  // others once they have finished what they do. When the system has no more threads there are fewer, as wanted() then
  // says. One thread at a time, and not beside stop().
  void want(unsigned threads) noexcept;

  // Called by a thread of the pool between two pieces of work: parks while the thread is not wanted. False when
  // stopped.
  [[nodiscard]] bool may_work(unsigned thread);

  // Has the work end and joins all threads. May be called again, by the same thread.
  void stop();

  [[nodiscard]] unsigned wanted() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  [[nodiscard]] unsigned most() const noexcept { return static_cast<unsigned>(statuses_.size()); }
  // One per thread that there may be; any thread may read them while the pool exists.
  [[nodiscard]] std::span<const WorkerStatus> statuses() const noexcept { return statuses_; }
  // The same, for whoever has the activities noted (WorkerStatus::timeline).
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
