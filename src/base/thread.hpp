#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "wait.hpp"

namespace forebay {

// The first failure on this rank, kept until the ranks have agreed to stop. Any thread may raise one; later failures
// are usually consequences of the first and are dropped.
class Failure {
 public:
  // Returns whether this was the first.
  bool raise(std::exception_ptr error) noexcept;

  [[nodiscard]] bool happened() const noexcept { return happened_.load(std::memory_order_acquire); }
  // REQUIRES: happened().
  [[noreturn]] void rethrow() const { std::rethrow_exception(error_); }
  // REQUIRES: happened().
  [[nodiscard]] const std::exception_ptr& error() const noexcept { return error_; }

 private:
  std::mutex first_;
  std::exception_ptr error_;  // written once, before happened_ is released
  std::atomic<bool> happened_{false};
};

class TimelineTrack;

// What a worker thread is doing, for the watchdog's report. Written by its thread, read by any.
struct alignas(64) WorkerStatus {
  enum class Activity : std::uint8_t {
    idle,            // waiting for work
    waiting_budget,  // waiting for room in the byte budget
    reading,         // in the store
    hedging,         // in the store, for a sample whose first read is slow
    retrying,        // waiting to read again after a transient error
    decoding,
    requesting,    // requesting the samples of a batch
    waiting_slot,  // waiting for room in the ring
    copying,       // starting copies of batches to the device and waiting for them
    parked,        // not wanted at present
    stopped,       // ended, or not started
  };
  static constexpr std::size_t kActivities = 11;

  std::atomic<Activity> activity{Activity::stopped};
  std::atomic<std::uint64_t> sample{0};   // meaningful while reading, hedging, retrying, waiting_budget or decoding
  std::atomic<std::int64_t> since_ns{0};  // steady clock, when the activity began
  // Time spent in each activity, excluding the current one.
  std::array<std::atomic<std::int64_t>, kActivities> spent_ns{};
  std::atomic<clockid_t> cpu_clock{0};            // of the thread while it runs, else 0
  std::atomic<TimelineTrack*> timeline{nullptr};  // where activities are recorded once they end; null = nowhere

  // Ends the current activity and begins another; returns the nanoseconds that the ended one lasted. Relaxed: a report
  // may mix neighbouring moments, which is harmless in a message or a mean.
  std::int64_t set(Activity now, std::uint64_t id = 0) noexcept;
  // The same activity continues with another piece of work; its start time stays, which saves reading the clock.
  void go_on_with(std::uint64_t id) noexcept { sample.store(id, std::memory_order_relaxed); }
  // Steady clock.
  [[nodiscard]] std::int64_t last_set_ns() const noexcept { return since_ns.load(std::memory_order_relaxed); }

  // Called by the status's thread at its start and end: its processor time is available in between.
  void thread_begins() noexcept;
  void thread_ends() noexcept { cpu_clock.store(0, std::memory_order_relaxed); }
};

// Sets the calling thread's name, of which debuggers and profilers show the first 15 bytes: "forebay-dec 3".
void name_this_thread(const char* name) noexcept;

// A short name for traces: "reading", "waiting for room". Lives as long as the program.
[[nodiscard]] const char* activity_name(WorkerStatus::Activity activity) noexcept;

// Time that all of these threads have spent in each activity so far, including the current one. Any thread.
using ActivityTimes = std::array<std::chrono::nanoseconds, WorkerStatus::kActivities>;
[[nodiscard]] ActivityTimes times_spent(std::span<const WorkerStatus> statuses) noexcept;

// Processor time of the threads among these that are running. Any thread; a system call per thread.
[[nodiscard]] std::chrono::nanoseconds cpu_spent(std::span<const WorkerStatus> statuses) noexcept;

// Processor time of all threads of this process, including those that have ended. Any thread.
[[nodiscard]] std::chrono::nanoseconds process_cpu_spent() noexcept;

// Throws an Error that says which thread the system refused, why, which limits apply, and what to do. Any thread.
[[noreturn]] void refuse_thread(std::string_view name, const std::system_error& cause);

// Starts a thread called `name` that runs `body`, which must not throw; with Thread = std::jthread it may take a
// std::stop_token. Every thread of the library starts here. Throws Error if the system allows no more threads: a caller
// that has started others must then end them. Any thread.
template <typename Thread = std::thread, typename Body>
[[nodiscard]] Thread start_thread(const std::string& name, Body body) {
  try {
    if constexpr (std::is_invocable_v<Body&, std::stop_token>) {
      return Thread([name, body = std::move(body)](std::stop_token stop) mutable {
        name_this_thread(name.c_str());
        body(std::move(stop));
      });
    } else {
      return Thread([name, body = std::move(body)]() mutable {
        name_this_thread(name.c_str());
        body();
      });
    }
  } catch (const std::system_error& error) {
    refuse_thread(name, error);
  }
}

// Remembers which process created this object: a fork of it has a copy of its memory but none of its threads.
class OwnProcess {
 public:
  OwnProcess();
  // Whether this process is a fork of the one that created this. A plain load: any thread, at any time. Does not detect
  // a raw clone().
  [[nodiscard]] bool is_forked() const noexcept { return forks_.load(std::memory_order_relaxed) != at_first_; }
  // Throws Error in a fork: `what` was made in another process.
  void require(std::string_view what) const {
    if (is_forked()) refuse(what);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const;

  const std::atomic<std::uint64_t>& forks_;  // of this process, counted since the first such object was created
  std::uint64_t at_first_;
  std::int64_t process_;
};

// Threads that do one kind of work, of which the wanted number is active; the others are parked between two pieces of
// work, or not yet started.
class WorkerPool {
 public:
  // What each thread runs, given its number from 0 and its status. It must call may_work() before each piece of work,
  // and return when that is false or there is no more work. Must not throw.
  using Body = std::function<void(unsigned thread, WorkerStatus& status)>;

  // What the threads do, and how to end them.
  struct Work {
    Body body;
    // Closes the threads' queues, so that none finds or waits for work. Called by stop(), possibly more than once. Must
    // not throw.
    std::function<void()> end;
  };

  // Starts `wanted` threads, named `name` and their number; there may be `most` in all. The body may run before the
  // constructor returns. Throws Error if the system allows no more threads, after ending those that were started.
  // REQUIRES: 1 <= wanted <= most.
  WorkerPool(std::string name, Work work, unsigned wanted, unsigned most);
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Sets how many threads work from now on, clamped to 1 ... `most`: starts missing threads, and parks surplus ones
  // after their current piece of work. If the system allows no more threads there are fewer, and wanted() says how
  // many. One thread at a time, and not during stop().
  void want(unsigned threads) noexcept;

  // Called by a thread of the pool between two pieces of work: parks it while it is not wanted. False once stopped.
  [[nodiscard]] bool may_work(unsigned thread);

  // Ends the work and joins all threads. May be called again, by one thread at a time.
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
