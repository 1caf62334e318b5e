#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <forebay/policy.hpp>
#include <forebay/summary.hpp>

#include "read/requests.hpp"

namespace forebay::measure {

inline double as_double(std::uint64_t count) noexcept { return static_cast<double>(count); }

// 0 if `whole` is 0.
inline double ratio(double part, double whole) noexcept { return whole > 0 ? part / whole : 0; }

// One step as seen by the trainer's thread. Times are in seconds.
struct StepRecord {
  std::uint64_t step = 0;       // as Lease::step()
  std::uint64_t epoch = 0;      // of the batch
  std::uint64_t batch = 0;      // number of the global batch within the epoch
  std::uint64_t use_index = 0;  // 0 = fresh, then 1, 2, ...
  double t_s = 0;               // when next() returned, counted from its first return; 0 for the first step
  double wait_s = 0;            // inside next(); the first step's is the wait for the first batch
  double step_s = 0;           // between the previous return and this call, the trainer's compute; 0 for the first step
  double census_wait_s = 0;    // part of wait_s until the census was complete; 0 if it was
  double ahead_s = 0;          // part of step_s inside next() until the device was at most queue.run_ahead steps behind
  std::uint64_t produced = 0;  // batches published so far
  double blocked_s = 0;        // time so far in which a full ring blocked the producer
  std::uint64_t job_fresh_samples = 0;  // as Lease::job_fresh_samples()
  std::uint64_t job_uses = 0;           // the most uses of a batch on any rank, `mpi.lag` steps before
  std::uint32_t size = 0;               // samples in the batch
  std::uint32_t depth = 0;              // ready batches found on entry
  Decision served = Decision::fresh;    // fresh or reuse
  bool padding = false;                 // served only so that every rank makes the same number of steps; never fresh
  bool decided_fresh = false;           // for a recording: what a replay's policy must decide
  bool adjacent = false;                // the same batch as the step before
  bool exhausted = false;               // depth was 0 on entry
};

static_assert(std::is_trivially_copyable_v<StepRecord>);

// The state of the ring and the quarantine at one moment; all but depth count from the start of the run.
struct Gauges {
  std::uint32_t depth = 0;        // batches ready now
  std::uint32_t capacity = 1;     // that may be ready
  std::uint64_t produced = 0;     // batches published
  double blocked_s = 0;           // producer blocked by a full ring, including a current block
  std::uint64_t bad_samples = 0;  // distinct
};

// All values from outside the step records, at one moment.
struct Snapshot {
  Snapshot() = default;
  Snapshot(double now_s, const Gauges& gauges_now, const read::WorkerTotals& totals) noexcept;

  double t_s = 0;
  Gauges gauges;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_from_store = 0;
  std::uint64_t bytes_from_cache = 0;
  std::uint64_t retries = 0;
  std::uint64_t hedged_reads = 0;
  double read_s = 0;
  double decode_s = 0;
};

// The figures of an interval. A rate is missing if the interval does not show it.
struct Interval {
  double t_s = 0;                           // its end
  double interval_s = 0;                    // its length
  std::uint64_t step_num = 0;               // the last step served, in this stretch or before
  std::uint64_t epoch = 0;                  // that step's
  std::uint32_t queue_size = 0;             // ready batches at the end
  std::uint32_t capacity = 1;               // batches that may be ready at the end
  double mean_enqueue_rate = 0;             // batches published per second
  double mean_dequeue_rate = 0;             // fresh batches served per second
  std::optional<double> mean_running_time;  // seconds per step, waiting included

  std::uint64_t steps = 0;
  std::uint64_t fresh = 0;
  std::uint64_t reused = 0;
  std::uint64_t exhausted_steps = 0;
  std::uint64_t job_fresh_samples = 0;   // samples of all ranks, since the run began
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
  std::uint64_t bytes_from_store = 0;
  std::uint64_t bytes_from_cache = 0;
  std::optional<double> cache_share;  // bytes_from_cache / (bytes_from_cache + bytes_from_store)
  std::uint64_t retries = 0;          // reads tried again after a transient error
  std::uint64_t hedged_reads = 0;     // slow reads that were issued a second time
  double read_s = 0;                  // summed over threads that read
  double decode_s = 0;                // summed over decoder threads
  std::uint64_t bad_samples = 0;      // since the start of the run
  std::uint64_t dropped_records = 0;  // since the start of the run; filled in by the reporter
};

// Gathers one Interval after another. One thread.
class IntervalWindow {
 public:
  // Begins the next interval.
  void begin(const Snapshot& now) noexcept;
  // The run's first record counts neither as wait nor as compute: its wait is the start-up.
  void add(const StepRecord& record) noexcept;
  // The figures of the interval up to `now`.
  [[nodiscard]] Interval figures(const Snapshot& now) const noexcept;
  [[nodiscard]] std::uint64_t steps() const noexcept { return counted_.steps; }

 private:
  Snapshot start_;
  Interval counted_;  // what add() counts; the rest as begin() left it
  bool started_ = false;
  std::uint64_t timed_steps_ = 0;  // those with a compute time
  std::uint64_t fresh_samples_ = 0;
  double wait_s_ = 0;
  double compute_s_ = 0;
};

// Append one line of JSON, newline included: the figures of figures.hpp.
void append_json(std::string& out, const StepRecord& record);
void append_json(std::string& out, const Interval& interval);

// One line of text, without a newline.
[[nodiscard]] std::string interval_line(const Interval& interval);
// The same for the live status line, with a bar that shows how full the queue is.
[[nodiscard]] std::string status_line(const Interval& interval);

// How often each batch was served. Exact up to kExact serves; all above share one bucket that keeps the largest.
// Allocates at construction only.
class UsesHistogram {
 public:
  static constexpr std::uint64_t kExact = 4096;

  UsesHistogram() : counts_(kExact + 1) {}

  // Ignores a batch that was never served (0).
  void add(std::uint64_t uses) noexcept;
  // The nearest-rank percentile: the smallest u such that at least `share` of the batches were served at most u
  // times; max() when that is above kExact, 0 when there are no batches. REQUIRES: 0 < share <= 1.
  [[nodiscard]] std::uint64_t percentile(double share) const noexcept;
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }

 private:
  std::vector<std::uint64_t> counts_;  // [u - 1]: batches served u times; [kExact]: more often
  std::uint64_t batches_ = 0;
  std::uint64_t max_ = 0;
};

// Accumulates the Summary of a run. Trainer's thread only; step(), finished() and batch_retired() neither allocate nor
// enter the kernel.
//
// wall_s is compute_s + stall_s: after the first return the trainer is always either outside next() or inside it. It
// therefore ends with the last call of next(); the time since then is not yet assigned.
//
// produce_rate (lambda) is taken between the first step and the last one that found new batches published:
//   (produced_last - produced_first) / ((t_last - t_first) - (blocked_last - blocked_first))
// so that neither the filling of an empty pipeline nor the time after its last batch counts. If everything was
// published before the first step, it is produced_first / (startup_s - blocked_first).
//
// consume_rate (mu) is the number of compute times known / compute_s; steps / compute_s once finished().
class RunCounters {
 public:
  // After each step.
  void step(const StepRecord& record) noexcept;
  // To be called after a next() that ended the run instead of serving, with the trainer's compute before it and the
  // time inside it, in seconds.
  void finished(double step_s, double wait_s) noexcept;
  // A batch left the ring after `uses` serves.
  void batch_retired(std::uint64_t uses) noexcept { uses_.add(uses); }

  // The figures so far. `facts`: the figures counted elsewhere (startup_s, blocked_s, bytes_read, ...), with the others
  // 0. `resident_uses`: serves of each batch that was served and has not retired.
  [[nodiscard]] Summary summary(const Summary& facts, std::span<const std::uint64_t> resident_uses) const;

 private:
  // The producer's counts when the trainer was served.
  struct Produced {
    double t_s = 0;
    std::uint64_t batches = 0;
    double blocked_s = 0;
  };

  [[nodiscard]] double produce_rate(double startup_s) const noexcept;

  Summary counted_;  // what step() and finished() add up
  UsesHistogram uses_;
  std::uint64_t fresh_samples_ = 0;
  std::uint64_t adjacent_ = 0;
  std::uint64_t compute_times_ = 0;
  Produced first_;
  Produced last_;
};

}  // namespace forebay::measure
