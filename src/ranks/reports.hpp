#pragma once

#include <cstdint>
#include <limits>

namespace forebay::ranks {

// How far one rank is, or the least that any rank said.
struct Progress {
  // Said of `ready` and `produced` by a rank that has nothing left to produce: it keeps nobody waiting.
  static constexpr std::int64_t kDrained = std::numeric_limits<std::int64_t>::max();
  // Said of `ready`, with kDrained of `produced`, by a rank that has served all of the epochs that are open: until the
  // next one opens it keeps nobody waiting either.
  static constexpr std::int64_t kIdle = kDrained - 1;

  std::int64_t ready = kDrained;     // batches ready before the step is served
  std::int64_t produced = kDrained;  // batches published since the start
  std::int64_t now_ns = 0;           // since the first step
  std::int64_t blocked_ns = 0;       // of it, producer blocked by a full ring
};

// What one rank says at the start of a step, counted since the run began. Run, Ranks and the Coordinator each fill in
// what they know, in this order.
struct RankReport {
  bool at_reuse_cap = false;  // would reuse a batch that was served policy.max_uses times
  std::int64_t served = 0;    // batches of the epoch epochs_completed() that it has served fresh
  std::int64_t samples = 0;   // samples that it has served fresh
  std::int64_t uses = 0;      // of the batch it has served most often of those it may reuse
  Progress progress{};        // in lockstep

  bool stop = false;       // wants to stop; once requested it stays requested
  bool idle = false;       // has no batch left that it could plan
  std::int64_t fresh = 0;  // lockstep: fresh decisions so far

  bool error = false;        // cannot go on
  bool left = false;         // makes neither this step nor any other
  std::int64_t new_bad = 0;  // distinct bad samples that the job has not agreed on yet

  // Equal on all ranks at the same step, so not sent.
  std::uint64_t to_serve = UINT64_MAX;  // batches that the job has to serve of the epoch
  std::uint64_t epoch = 0;              // epochs that the job had agreed to be complete
  std::uint64_t bad_round = 0;          // exchanges of bad samples
};

// What all ranks said at one step: how many said so, the sums, the least of each progress, and the most uses.
struct JobReport {
  std::uint64_t step = 0;  // at which they said it
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
