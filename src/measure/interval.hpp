#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "read/requests.hpp"
#include "step_record.hpp"

namespace forebay {

// What the ring and the quarantine say at one moment; all but depth count from the start of the run.
struct Gauges {
  std::uint32_t depth = 0;        // batches ready now
  std::uint64_t produced = 0;     // batches published
  double blocked_s = 0;           // producer blocked by a full ring, a block that still lasts included
  std::uint64_t bad_samples = 0;  // distinct
};

// Everything that is read from outside the step records, at one moment.
struct Snapshot {
  Snapshot() = default;
  Snapshot(double now_s, const Gauges& gauges_now, const WorkerTotals& totals) noexcept;

  double t_s = 0;
  Gauges gauges;
  std::uint64_t bytes_read = 0;
  std::uint64_t retries = 0;
  std::uint64_t hedged_reads = 0;
  double read_s = 0;
  double decode_s = 0;
};

// Figures of a stretch of time. A rate is missing when nothing in the stretch tells it.
struct Interval {
  double t_s = 0;                           // its end
  double interval_s = 0;                    // its length
  std::uint64_t step_num = 0;               // the last step served, in this stretch or before
  std::uint64_t epoch = 0;                  // that step's
  std::uint32_t queue_size = 0;             // ready batches at the end
  std::uint32_t capacity = 1;               // queue.capacity; filled in by the reporter
  double mean_enqueue_rate = 0;             // batches published per second
  double mean_dequeue_rate = 0;             // fresh batches served per second
  std::optional<double> mean_running_time;  // seconds per step, waiting included

  std::uint64_t steps = 0;
  std::uint64_t fresh = 0;
  std::uint64_t reused = 0;
  std::uint64_t exhausted_steps = 0;
  std::uint64_t job_fresh_samples = 0;   // of all ranks, since the run began
  std::uint64_t job_uses_max = 0;        // the most of one batch by any rank
  std::uint64_t census_waits = 0;        // steps whose census was not complete at once
  double census_wait_s = 0;              // until it was
  std::optional<double> fresh_fraction;  // fresh / steps
  std::optional<double> lambda;          // batches published / (length - blocked_producer_s)
  std::optional<double> mu;              // steps / time of the trainer's compute
  std::optional<double> r;               // mu / lambda
  std::optional<double> stall;           // time inside next() / that time plus compute, of the steps served
  double images_per_s = 0;               // fresh samples served per second
  double blocked_producer_s = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t retries = 0;          // reads tried again after a transient error
  std::uint64_t hedged_reads = 0;     // slow reads that were begun a second time
  double read_s = 0;                  // summed over reader threads
  double decode_s = 0;                // summed over decoder threads
  std::uint64_t bad_samples = 0;      // since the start of the run
  std::uint64_t dropped_records = 0;  // since the start of the run; filled in by the reporter
};

// Gathers one Interval after another. One thread.
class IntervalWindow {
 public:
  // Begins the next stretch.
  void begin(const Snapshot& now) noexcept;
  // The run's first record gives neither wait nor compute: its wait is the start-up.
  void add(const StepRecord& record) noexcept;
  // The stretch so far, as it ends at `now`.
  [[nodiscard]] Interval figures(const Snapshot& now) const noexcept;
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  Snapshot start_;
  std::uint64_t step_num_ = 0;
  std::uint64_t epoch_ = 0;
  bool started_ = false;
  std::uint64_t steps_ = 0;
  std::uint64_t timed_steps_ = 0;  // those with a compute time
  std::uint64_t fresh_ = 0;
  std::uint64_t fresh_samples_ = 0;
  std::uint64_t exhausted_ = 0;
  double wait_s_ = 0;
  double compute_s_ = 0;
  std::uint64_t job_fresh_samples_ = 0;
  std::uint64_t job_uses_max_ = 0;
  std::uint64_t census_waits_ = 0;
  double census_wait_s_ = 0;
};

// Append one line of JSON, newline included: the figures of figures.hpp.
void append_json(std::string& out, const StepRecord& record);
void append_json(std::string& out, const Interval& interval);

// One line for people, without a newline.
[[nodiscard]] std::string interval_line(const Interval& interval);
// The same for the live status line: with a bar of how full the queue is.
[[nodiscard]] std::string status_line(const Interval& interval);

}  // namespace forebay
