#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace forebay {

// Figures of a run; times are in seconds. The clock starts when the first next() returns: the wait for the first batch
// is startup_s and counts neither as wall nor as stall time.
struct Summary {
  std::uint64_t steps = 0;
  std::uint64_t fresh = 0;
  std::uint64_t reused = 0;
  double fresh_fraction = 0;  // fresh / steps
  double startup_s = 0;       // construction until the first batch
  double wall_s = 0;
  double compute_s = 0;  // between the return of next() and the next call, ahead_s included
  double ahead_s = 0;  // inside next(), until the device, which was computing, was at most queue.run_ahead steps behind
  double stall_s = 0;  // inside next(), except for the first call and ahead_s
  double au = 0;       // accelerator utilization: compute_s / wall_s
  double fresh_au = 0;                // au * fresh_fraction
  double images_per_s = 0;            // fresh samples served / wall_s
  double produce_rate = 0;            // lambda: batches per second while the producer was not blocked by a full ring
  double consume_rate = 0;            // mu: steps per second of compute time, which the trainer could take
  double blocked_s = 0;               // producer blocked by a full ring
  std::uint64_t queue_capacity = 0;   // batches that could be ready at the end; for a job, on the rank with the most
  std::uint64_t max_uses = 0;         // serves of one batch that policy.max_uses allowed at the end; 0 = no cap
  std::uint64_t census_waits = 0;     // steps, except for the first, whose census (mpi.lag) was not complete at once
  double census_wait_s = 0;           // part of stall_s spent waiting for it, mostly for ranks that are behind
  std::uint64_t exhausted_steps = 0;  // steps that found the queue empty
  std::uint64_t uses_p50 = 0;         // serves per batch, over the batches that have left the ring or still reside
  std::uint64_t uses_p99 = 0;
  std::uint64_t uses_max = 0;
  double adjacent_reuse_fraction = 0;  // steps that served the same batch as the step before / steps
  std::uint64_t bad_samples = 0;       // distinct ones in the job, those found by the index included
  double bad_share = 0;                // bad_samples / samples of the dataset
  std::uint64_t left_out = 0;          // bad samples that evaluation left out; 0 in training, where others replace them
  std::uint64_t epochs = 0;            // completed by all ranks
  std::uint64_t bytes_read = 0;
  // Bytes from a store, or from a slow mount that cache.dir keeps; and with cache.dir: bytes from the cache, its share
  // of both, the bytes that it holds at the end, and the share of an epoch that it can serve with those.
  std::uint64_t bytes_from_store = 0;
  std::uint64_t bytes_from_cache = 0;
  double cache_share = 0;
  std::uint64_t cache_held = 0;
  double cache_bound = 0;
  // With workers.hedge: reads that were started a second time because they were slow, and how many second reads won.
  std::uint64_t hedged_reads = 0;
  std::uint64_t hedges_won = 0;
  // With workers.jpeg = "nvjpeg": samples that nvJPEG decoded, and samples that it does not support or failed on, which
  // went to libjpeg-turbo, bad ones included. Both are 0 without it.
  std::uint64_t nvjpeg_samples = 0;
  std::uint64_t nvjpeg_fallbacks = 0;
  std::uint64_t dropped_records = 0;  // telemetry records lost to a slow disk
};

// A job's figures from those of its ranks: counts are summed, times averaged, rates summed (images_per_s, produce_rate)
// or averaged (consume_rate), and fractions follow from the sums; uses_* are the largest, epochs is the smallest, and
// bad_samples the largest (each rank already counts the whole job's).
[[nodiscard]] Summary combine(std::span<const Summary> ranks);

// A JSON object with the keys of docs/telemetry.md; a job's also has "ranks": [ ... ] with the same keys per rank.
[[nodiscard]] std::string to_json(const Summary& summary);
[[nodiscard]] std::string to_json(const Summary& job, std::span<const Summary> ranks);
// The inverse of to_json(const Summary&). Throws Error.
[[nodiscard]] Summary summary_from_json(const std::string& json);

}  // namespace forebay
