#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>

namespace forebay {

class TimelineTrack;

// What a worker thread is doing, for the watchdog's report. Written by its thread, read by any.
struct alignas(64) WorkerStatus {
  enum class Activity : std::uint8_t {
    idle,            // waiting for work
    waiting_budget,  // waiting for room in the byte budget
    reading,         // in the store
    hedging,         // in the store, for a sample that another reader is slow with
    retrying,        // waiting to read again after a transient error
    decoding,
    requesting,    // asking readers for the samples of a batch
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

  // Ends the current activity and begins another; returns the nanoseconds that the ended one lasted.
  // Relaxed: a report may mix neighbouring moments, which does no harm in a message for people or in a mean.
  std::int64_t set(Activity now, std::uint64_t id = 0) noexcept;

  // Called by the status's thread at its start and end: its processor time is available in between.
  void thread_begins() noexcept;
  void thread_ends() noexcept { cpu_clock.store(0, std::memory_order_relaxed); }
};

// The calling thread's name, of which debuggers and profilers show the first 15 bytes: "forebay-dec 3".
void name_this_thread(const char* name) noexcept;

// One word or two for a trace: "reading", "waiting for room". Lives as long as the program.
[[nodiscard]] const char* activity_name(WorkerStatus::Activity activity) noexcept;

// Time that all of these threads have spent in each activity so far, including the current one. Any thread.
using ActivityTimes = std::array<std::chrono::nanoseconds, WorkerStatus::kActivities>;
[[nodiscard]] ActivityTimes times_spent(std::span<const WorkerStatus> statuses) noexcept;

// Processor time of the threads among these that are running. Any thread; a system call per thread.
[[nodiscard]] std::chrono::nanoseconds cpu_spent(std::span<const WorkerStatus> statuses) noexcept;

// Processor time of all threads of this process, including those that have ended. Any thread.
[[nodiscard]] std::chrono::nanoseconds process_cpu_spent() noexcept;

}  // namespace forebay
