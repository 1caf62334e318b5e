#pragma once

#include <cstdint>
#include <limits>

namespace forebay::ranks {

// The progress of one rank, or the minimum over all ranks.
struct Progress {
  // The value of `ready` and `produced` on a rank that has nothing left to produce and keeps nobody waiting.
  static constexpr std::int64_t kDrained = std::numeric_limits<std::int64_t>::max();
  // The value of `ready`, with kDrained for `produced`, on a rank that has served all open epochs: until the next one
  // opens it keeps nobody waiting either.
  static constexpr std::int64_t kIdle = kDrained - 1;

  std::int64_t ready = kDrained;     // batches ready before the step is served
  std::int64_t produced = kDrained;  // batches published since the start
  std::int64_t now_ns = 0;           // since the first step
  std::int64_t blocked_ns = 0;       // the part of it in which a full ring blocked the producer
};

// A rank's report at the start of a step, counted since the run began. Run, Ranks and the Coordinator fill in their
// parts, in this order.
struct RankReport {
  bool at_reuse_cap = false;  // would reuse a batch that was served policy.max_uses times
  std::int64_t served = 0;    // batches of the epoch epochs_completed() that it has served fresh
  std::int64_t samples = 0;   // samples that it has served fresh
  std::int64_t uses = 0;      // of the batch that its last step served
  Progress progress{};        // in lockstep

  bool stop = false;       // wants to stop; once requested it stays requested
  bool idle = false;       // has no batch left to plan
  std::int64_t fresh = 0;  // lockstep: fresh decisions so far

  bool error = false;        // cannot continue
  bool left = false;         // makes neither this step nor any other
  std::int64_t new_bad = 0;  // distinct bad samples that the job has not agreed on yet

  // Equal on all ranks at the same step, so not sent.
  std::uint64_t to_serve = UINT64_MAX;  // batches of the epoch that the job has to serve
  std::uint64_t epoch = 0;              // epochs that the job had agreed to be complete
  std::uint64_t bad_round = 0;          // exchanges of bad samples
};

// The reports of all ranks at one step, combined: counts of flags, sums, the minimum of each progress, and the most
// uses.
struct JobReport {
  std::uint64_t step = 0;  // the step of the reports
  std::int64_t at_reuse_cap = 0;
  std::int64_t served = 0;
  std::int64_t samples = 0;
  std::int64_t uses = 0;
  Progress least;
  std::int64_t stops = 0;
  std::int64_t idle = 0;
  std::int64_t fresh = 0;
  std::int64_t errors = 0;
  std::int64_t left = 0;
  std::int64_t new_bad = 0;
  std::uint64_t epoch = 0;
  std::uint64_t bad_round = 0;
};

}  // namespace forebay::ranks
