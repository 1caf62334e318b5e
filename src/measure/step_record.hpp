#pragma once

#include <cstdint>
#include <type_traits>

#include <forebay/policy.hpp>

namespace forebay {

// One step as the trainer's thread saw it. Times in seconds.
struct StepRecord {
  std::uint64_t step = 0;       // as Lease::step()
  std::uint64_t epoch = 0;      // of the batch
  std::uint64_t batch = 0;      // number of the global batch within the epoch
  std::uint64_t use_index = 0;  // 0 = fresh, then 1, 2, ...
  double t_s = 0;               // when next() returned, counted from its first return; 0 for the first step
  double wait_s = 0;            // inside next(); the first step's is the wait for the first batch
  double step_s = 0;           // between the previous return and this call, the trainer's compute; 0 for the first step
  double census_wait_s = 0;    // of wait_s, until the census was complete; 0 when it was
  double ahead_s = 0;          // of step_s, inside next() until the device was at most queue.run_ahead steps behind
  std::uint64_t produced = 0;  // batches published so far
  double blocked_s = 0;        // so far, producer blocked by a full ring
  std::uint64_t job_fresh_samples = 0;  // as Lease::job_fresh_samples()
  std::uint64_t job_uses = 0;           // of the batch that any rank had served most often `mpi.lag` steps before
  std::uint32_t size = 0;               // samples in the batch
  std::uint32_t depth = 0;              // ready batches found on entry
  Decision served = Decision::fresh;    // fresh or reuse
  bool padding = false;                 // served only so that every rank makes the same number of steps; never fresh
  bool decided_fresh = false;           // for a recording: what a replay's policy is to say
  bool adjacent = false;                // the same batch as the step before
  bool exhausted = false;               // depth was 0 on entry
};

static_assert(std::is_trivially_copyable_v<StepRecord>);

}  // namespace forebay
