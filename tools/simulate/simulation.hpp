#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <forebay/options.hpp>
#include <forebay/policy.hpp>

#include "source.hpp"

namespace forebay::simulate {

// A job to simulate. All its ranks make every step at the same time, because each step ends with an
// all-reduce.
struct Scenario {
  QueueOptions queue;  // a capacity of "auto" starts with the fewest batches
  PolicyOptions policy;
  MpiOptions mpi;  // mode, lag
  std::uint64_t ranks = 1;
  std::uint64_t steps = 10'000;
  std::uint64_t seed = 1;
  // The source of rank r is sources[r mod size]. Not empty.
  std::vector<std::shared_ptr<const SourceSpec>> sources;
  // The compute time of step k is step_s[k mod size] seconds. Not empty, all > 0.
  std::vector<double> step_s{1.0};
};

// The result. Counts are sums over ranks, times are those of the job.
struct Outcome {
  std::uint64_t steps = 0;  // of each rank
  std::uint64_t fresh = 0;
  std::uint64_t reused = 0;
  std::uint64_t exhausted_steps = 0;  // steps that found the queue empty
  std::uint64_t produced = 0;
  std::uint64_t left = 0;         // batches ready at the end
  std::uint64_t could_serve = 0;  // fresh, and those of `left` that the rank's steps had room for
  double fresh_fraction = 0;
  double stall_s = 0;  // time, after the first batch, in which any rank waited and so held up all others
  double wall_s = 0;
  double mean_depth = 0;       // batches ready when a step was requested
  std::uint32_t capacity = 0;  // the final capacity, of the rank with the largest
  double evenness = 0;         // sum over batches of uses^2 / steps
  std::uint64_t uses_p50 = 0;
  std::uint64_t uses_p99 = 0;
  std::uint64_t uses_max = 0;
  std::uint64_t longest_run = 0;        // steps in a row that served the same batch
  std::vector<std::uint64_t> fresh_of;  // fresh steps of each rank
};

// How a rank served one step.
struct ServedStep {
  Decision decision = Decision::fresh;
  std::uint32_t depth = 0;  // when the step was requested
  double wait_s = 0;
  std::uint64_t turn = 1;       // of the batch: the rank's first one is 1
  std::uint64_t use_index = 0;  // 0 = fresh, then 1, 2, ...
  std::uint64_t produced = 0;   // batches so far
  double blocked_s = 0;         // so far, producer blocked by a full queue
  std::uint32_t capacity = 1;   // batches that may be ready
};

// Called for each step of each rank, in the order of ranks. `asked_s`: when the step was requested,
// counted from the first step.
using StepObserver = std::function<void(std::uint64_t rank, double asked_s, const ServedStep& served)>;

// Runs the scenario with policies of `registry` in virtual time, without threads or clocks, so the
// result is always the same. Throws ConfigError for an invalid scenario, and what policies and
// `observer` throw.
[[nodiscard]] Outcome simulate(const Scenario& scenario, const PolicyRegistry& registry,
                               const StepObserver& observer = {});

// For each step, how many batches the rank's source has delivered when the step is served, if every
// batch is taken at once: the input of best_schedule(). The steps are those of `scenario` without
// stalls.
[[nodiscard]] std::vector<std::uint64_t> arrivals(const Scenario& scenario, std::uint64_t rank = 0);

// The most even schedule that loses no batch, when all arrivals are known in advance: the steps
// that serve a fresh batch.
struct BestSchedule {
  std::vector<std::uint64_t> fresh_steps;  // ascending, the first is 0
  double squares = 0;                      // sum over batches of (steps served)^2
};

// Minimises the sum of uses^2 over all sequences of fresh and reuse steps with one resident batch, where
//  - `arrived[k]` batches have arrived when step k is served; ascending, arrived[0] >= 1;
//  - a step serves at most one fresh batch, and only one that has arrived: no stall;
//  - before step k + 1 at most `capacity` batches wait, arrived[k + 1] - (fresh up to step k) <= capacity: the producer
//    is never kept from delivering what `arrived` says it delivers.
// The arrivals must be those of a consumer that takes every batch at once, so that they include the blocking that no
// policy can avoid. Dynamic programming over the step at which each batch is first served; the cost is Monge, so each
// batch takes O(w log w) for a window of w steps (divide and conquer over monotone minima: Aggarwal et
// al., "Geometric applications of a matrix-searching algorithm", 1987). Memory: one index per batch and window step.
// Throws Error when no schedule satisfies the conditions.
[[nodiscard]] BestSchedule best_schedule(std::span<const std::uint64_t> arrived, std::uint64_t capacity);

}  // namespace forebay::simulate
