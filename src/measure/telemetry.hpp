#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include <forebay/options.hpp>

#include "base/wait.hpp"
#include "console_log.hpp"
#include "counters.hpp"
#include "metrics.hpp"
#include "read/requests.hpp"
#include "record_ring.hpp"
#include "recording.hpp"
#include "run_files.hpp"

namespace forebay::measure {

struct TelemetrySetup {
  TelemetryOptions options;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::size_t records = std::size_t{16} * 1024;             // step records that may wait for the disk
  std::size_t decisions = std::size_t{1} << 20;             // decisions that may wait for the disk
  std::optional<RecordingHeader> recording = std::nullopt;  // none: decisions are not recorded
  bool goes_on = false;                                     // the run resumed: appends to the files
};

// Turns step records into files and log lines. Knows the time only from its caller. For one thread,
// except lost().
class Reporter {
 public:
  // Opens the files under options.dir and what options.prometheus names; throws ConfigError, naming
  // the key. `gauges` is called from now until finish() has returned; `totals` and `console` must
  // outlive the reporter.
  Reporter(TelemetrySetup setup, const read::WorkerTotals& totals, std::function<Gauges()> gauges, ConsoleLog& console);

  // Whether any output for reports exists.
  [[nodiscard]] bool has_audience() const noexcept;

  // Adds a record. Returns false, and counts it as lost, if there is no memory for it.
  bool add(const StepRecord& record) noexcept;
  // Adds the decision of the next step. Must be called for every step, because a recording with a
  // gap is useless.
  void add_decision(RecordedStep step) noexcept {
    if (decisions_) decisions_->add(step);
  }
  // Ends the recording, because decisions were lost.
  void end_decisions(std::string_view cause) noexcept {
    if (decisions_) decisions_->end(cause);
  }
  // Called after the available records have been added; `now_s` is on any monotonic clock.
  // `dropped`: records that were lost before they got here. The reporter's own time begins at the
  // run's first step.
  void tick(double now_s, std::uint64_t dropped);
  // The last tick: writes the unfinished interval, flushes, and ends the status line.
  void finish(double now_s, std::uint64_t dropped);

  // Completes the files after finish() has thrown.
  void flush() noexcept;

  // Records that reached the reporter but may not be on disk. Any thread.
  [[nodiscard]] std::uint64_t lost() const noexcept;

 private:
  void take(const StepRecord& record);
  [[nodiscard]] Snapshot snapshot(double t_s) const;
  [[nodiscard]] Interval figures(const IntervalWindow& window, const Snapshot& now, std::uint64_t dropped) const;
  void open_metrics();
  // Called until the first step, because what happens before it belongs to no interval.
  void begin_at_zero();
  void write_steps();
  void write_interval(const Interval& interval);
  void end_interval(const Snapshot& now, std::uint64_t dropped);
  void draw_status(const Snapshot& now, std::uint64_t dropped);
  void publish(const Snapshot& now, std::uint64_t dropped, bool is_running);
  void sync();
  void tell_of_rotation();

  const TelemetrySetup setup_;
  const read::WorkerTotals& totals_;
  const std::function<Gauges()> gauges_;
  ConsoleLog& console_;
  std::unique_ptr<JsonLinesFile> steps_;
  std::unique_ptr<JsonLinesFile> intervals_;
  std::unique_ptr<DecisionLog> decisions_;
  std::unique_ptr<MetricsOutput> metrics_;

  std::optional<double> origin_s_;  // when the first step was served, on the caller's clock
  double last_record_s_ = 0;        // t_s of the latest record
  std::string step_lines_;          // not written yet
  std::uint64_t step_line_count_ = 0;
  std::atomic<std::uint64_t> unwritten_{0};  // records for which there was no memory

  IntervalWindow interval_;
  double interval_due_s_ = 0;
  IntervalWindow live_;  // the shorter interval of the status line
  Interval live_figures_;
  bool has_live_period_ = false;  // a complete one
  double live_due_s_ = 0;
  double redraw_due_s_ = 0;
  IntervalWindow whole_;  // for monitoring: since the start; lately_: the current short interval
  IntervalWindow lately_;
  Interval lately_figures_;
  bool has_lately_period_ = false;
  double lately_due_s_ = 0;
  double publish_due_s_ = 0;
  double sync_due_s_ = 0;
  bool rotation_told_ = false;
};

// The telemetry of one rank. Takes a record per step from the trainer's thread and reports on a
// thread of its own, so that the trainer never waits for a disk, a terminal or formatting. If the
// disk is too slow, records are dropped and counted.
class Telemetry {
 public:
  // Throws ConfigError, naming the key, as Reporter does, and Error if the thread cannot be
  // started. `gauges` is called here, and on the telemetry thread until close() has returned;
  // `totals` and `console` must outlive the object.
  Telemetry(const TelemetrySetup& setup, const read::WorkerTotals& totals, std::function<Gauges()> gauges,
            ConsoleLog& console);
  ~Telemetry();  // close()
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // Trainer's thread; not after close(). Wait-free: no lock, no allocation, no system call.
  void record(const StepRecord& step) noexcept {
    if (!active_) return;
    // Once a decision is lost the recording ends, because nothing after a gap is usable.
    if (decisions_ && decisions_->dropped() == 0)
      decisions_->push({.fresh = step.decided_fresh, .padded = step.padding});
    ring_.push(step);
  }

  // Records lost so far, to a full ring or a failing disk. Any thread.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return ring_.dropped() + reporter_.lost(); }

  // Reports everything recorded before the call, flushes and ends the thread. Trainer's thread;
  // idempotent.
  void close();

 private:
  void run(const std::stop_token& stop);
  void take_decisions();
  void report_once(const char* cause) noexcept;

  WaitPoint stopping_;
  RecordRing<StepRecord> ring_;
  std::unique_ptr<RecordRing<RecordedStep>> decisions_;  // null: not recorded
  ConsoleLog& console_;
  Reporter reporter_;
  const bool active_;
  bool troubled_ = false;  // telemetry thread only
  std::jthread thread_;
};

}  // namespace forebay::measure
