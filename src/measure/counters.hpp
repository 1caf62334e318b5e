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

// One step as the trainer's thread sees it. Times are in seconds.
struct StepRecord {
  std::uint64_t step = 0;               // as Lease::step()
  std::uint64_t epoch = 0;              // of the batch
  std::uint64_t batch = 0;              // number of the global batch within the epoch
  std::uint64_t use_index = 0;          // 0 = fresh, then 1, 2, ...
  double t_s = 0;                       // when next() returned, from its first return on
  double wait_s = 0;                    // inside next(); first step: the wait for the first batch
  double step_s = 0;                    // the trainer's compute before this call; first step: 0
  double census_wait_s = 0;             // part of wait_s until the census was complete; 0 if it was
  double ahead_s = 0;                   // part of step_s: in next() for queue.run_ahead
  std::uint64_t produced = 0;           // batches published so far
  double blocked_s = 0;                 // time so far in which a full ring blocked the producer
  std::uint64_t job_fresh_samples = 0;  // as Lease::job_fresh_samples()
  std::uint64_t job_uses = 0;           // the most uses of a batch on any rank, `mpi.lag` steps before
  std::uint32_t size = 0;               // samples in the batch
  std::uint32_t depth = 0;              // ready batches found on entry
  Decision served = Decision::fresh;    // fresh or reuse
  bool padding = false;                 // served only to keep the ranks' steps equal; never fresh
  bool decided_fresh = false;           // for a recording: what a replay's policy must decide
  bool adjacent = false;                // the same batch as the step before
  bool exhausted = false;               // depth was 0 on entry
};

static_assert(std::is_trivially_copyable_v<StepRecord>);

// The state of ring and quarantine at one moment. depth and capacity are current values, all others
// count from the start of the run.
struct Gauges {
  std::uint32_t depth = 0;        // batches ready now
  std::uint32_t capacity = 1;     // batches that may be ready
  std::uint64_t produced = 0;     // batches published
  double blocked_s = 0;           // producer blocked by a full ring, up to now
  std::uint64_t bad_samples = 0;  // distinct samples
};

// All values that come from outside the step records, at one moment.
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

// The figures of an interval. A rate that the interval does not show is missing.
struct Interval {
  double t_s = 0;                           // end of the interval
  double interval_s = 0;                    // length of the interval
  std::uint64_t step_num = 0;               // the last step served, in this interval or before
  std::uint64_t epoch = 0;                  // of that step
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
  std::uint64_t job_uses_max = 0;        // most uses of one batch by any rank
  std::uint64_t census_waits = 0;        // steps whose census was not complete at once
  double census_wait_s = 0;              // time until it was
  std::optional<double> fresh_fraction;  // fresh / steps
  std::optional<double> lambda;          // batches published / (length - blocked_producer_s)
  std::optional<double> mu;              // steps / time of the trainer's compute
  std::optional<double> r;               // mu / lambda
  std::optional<double> stall;           // share of the steps' time inside next()
  double images_per_s = 0;               // fresh samples served per second
  double blocked_producer_s = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_from_store = 0;
  std::uint64_t bytes_from_cache = 0;
  std::optional<double> cache_share;  // bytes_from_cache / (bytes_from_cache + bytes_from_store)
  std::uint64_t retries = 0;          // reads repeated after a transient error
  std::uint64_t hedged_reads = 0;     // slow reads issued a second time
  double read_s = 0;                  // summed over threads that read
  double decode_s = 0;                // summed over decoder threads
  std::uint64_t bad_samples = 0;      // since the start of the run
  std::uint64_t dropped_records = 0;  // since the start of the run; set by the reporter
};

// Gathers one Interval after another. For one thread.
class IntervalWindow {
 public:
  // Begins the next interval.
  void begin(const Snapshot& now) noexcept;
  // The run's first record counts as neither wait nor compute, because its wait is the startup.
  void add(const StepRecord& record) noexcept;
  // The figures of the interval up to `now`.
  [[nodiscard]] Interval figures(const Snapshot& now) const noexcept;
  [[nodiscard]] std::uint64_t steps() const noexcept { return counted_.steps; }

 private:
  Snapshot start_;
  Interval counted_;  // what add() counts; other members as begin() left them
  bool started_ = false;
  std::uint64_t timed_steps_ = 0;  // steps with a compute time
  std::uint64_t fresh_samples_ = 0;
  double wait_s_ = 0;
  double compute_s_ = 0;
};

// Each appends one line of JSON, newline included, with the figures of figures.hpp.
void append_json(std::string& out, const StepRecord& record);
void append_json(std::string& out, const Interval& interval);

// One line of text, without a newline.
[[nodiscard]] std::string interval_line(const Interval& interval);
// Likewise for the live status line, with a bar that shows how full the queue is.
[[nodiscard]] std::string status_line(const Interval& interval);

// How often batches were served. Exact up to kExact serves; all above share one bucket, whose
// largest value is known. Allocates only at construction.
class UsesHistogram {
 public:
  static constexpr std::uint64_t kExact = 4096;

  UsesHistogram() : counts_(kExact + 1) {}

  // Ignores a batch that was never served (0).
  void add(std::uint64_t uses) noexcept;
  // The nearest-rank percentile: the smallest u such that at least `share` of the batches were
  // served at most u times; max() if that is above kExact; 0 without batches. REQUIRES: 0 < share
  // <= 1.
  [[nodiscard]] std::uint64_t percentile(double share) const noexcept;
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }

 private:
  std::vector<std::uint64_t> counts_;  // [u - 1]: batches served u times; [kExact]: more often
  std::uint64_t batches_ = 0;
  std::uint64_t max_ = 0;
};

// Accumulates the Summary of a run. Trainer's thread only; step(), finished() and batch_left_pool()
// neither allocate nor enter the kernel.
//
// wall_s is compute_s + stall_s: after the first return the trainer is always either outside next()
// or inside it. So it ends with the last call of next(); the time since then is not assigned yet.
//
// produce_rate (lambda) is taken between the first step and the last one that found new batches:
//   (produced_last - produced_first) / ((t_last - t_first) - (blocked_last - blocked_first))
// so neither the filling of an empty pipeline nor the time after its last batch counts. If all
// batches were published before the first step, it is
// produced_first / (startup_s - blocked_first).
//
// consume_rate (mu) is the number of known compute times / compute_s; after finished() that is
// steps / compute_s.
class RunCounters {
 public:
  // Called after each step.
  void step(const StepRecord& record) noexcept;
  // Called after a next() that ended the run instead of serving, with the trainer's compute time
  // before it and the time inside it, in seconds.
  void finished(double step_s, double wait_s) noexcept;
  // A batch left the pool after `uses` serves.
  void batch_left_pool(std::uint64_t uses) noexcept { uses_.add(uses); }

  // The figures so far. `facts`: the figures that are counted elsewhere (startup_s, blocked_s,
  // bytes_read, ...), all others 0. `resident_uses`: the serves of each batch that is still in the
  // pool.
  [[nodiscard]] Summary summary(const Summary& facts, std::span<const std::uint64_t> resident_uses) const;

 private:
  // The producer's counts at the time of a step.
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
