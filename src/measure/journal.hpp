#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

#include "counters.hpp"
#include "profiler.hpp"
#include "run_log.hpp"
#include "telemetry.hpp"
#include "timeline_file.hpp"

namespace forebay::measure {

// Records and reports one rank's run: the figures of its summary, telemetry, the profile, the
// trainer's part of a trace. It also measures steps: time inside next() is a wait, time between two
// calls is the trainer's compute. Used by the thread that calls next().
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): its telemetry begins a cache line
class Journal {
 public:
  using Clock = std::chrono::steady_clock;

  // What is observed from begin() to close(), also by threads of its own.
  struct Sources {
    const read::WorkerTotals& totals;
    std::function<Gauges()> gauges;
    std::function<Observation()> production;
    ConsoleLog& console;
  };

  // `timeline` must outlive it; null: no trace.
  explicit Journal(Timeline* timeline);

  // Opens files and starts threads, before the first step. `head` goes into the run's log. Throws
  // as RunLog, Telemetry and Profiler do.
  void begin(const TelemetrySetup& telemetry, const RunHead& head, const ProfileFrame& frame, const Sources& sources);
  // Undoes begin() because this rank or another could not start.
  void abandon() noexcept;
  [[nodiscard]] bool has_begun() const noexcept { return telemetry_.has_value(); }

  // Called when a step is about to return. `entered`: when next() was called, plus `ahead`, the
  // time in next() until the device had caught up far enough. Fills in the record's times except
  // census_wait_s.
  void step(StepRecord& record, Clock::time_point entered, Clock::duration ahead, Clock::time_point now) noexcept;
  // Called when a next() returns that ended an epoch instead of serving; the next step's wait
  // includes it.
  void left_epoch(Clock::time_point entered) noexcept { left_in_ = Clock::now() - entered; }
  // Called when a next() returns that ended the run instead of serving.
  void finished(Clock::time_point entered) noexcept;
  // Called when a batch leaves the pool after `uses` serves.
  void batch_left_pool(std::uint64_t uses) noexcept { counters_.batch_left_pool(uses); }

  // Observes the production side for the last time, while it is still running.
  void stop_profile();
  // Reports everything so far, flushes, and ends its threads.
  void close();
  [[nodiscard]] bool has_log() const noexcept { return log_.has_value(); }
  // Writes the outcome of the run, after close(). `run`: the result of summary(). REQUIRES:
  // has_log().
  void log_end(const Summary& run, const std::string& failure);

  // `facts`: figures of the run that are counted elsewhere. `resident_uses`: the serves of each
  // batch that is still in the pool.
  [[nodiscard]] Summary summary(Summary facts, std::span<const std::uint64_t> resident_uses) const;
  // `run`: the result of summary().
  [[nodiscard]] Profile profile(const Summary& run) const;

 private:
  void trace(const StepRecord& record, Clock::time_point entered, Clock::time_point now) noexcept;

  RunCounters counters_;
  TimelineTrack* trainer_ = nullptr;  // null: no trace
  TimelineTrack* queues_ = nullptr;
  std::optional<Telemetry> telemetry_;
  std::optional<Profiler> profiler_;
  std::optional<RunLog> log_;  // none: no files are written
  Clock::time_point first_return_;
  Clock::time_point last_return_;
  Clock::duration left_in_{0};
  bool has_step_ = false;
  std::uint64_t last_batch_ = 0;  // of the last step, like last_use_
  std::uint64_t last_use_ = 0;
};

}  // namespace forebay::measure
