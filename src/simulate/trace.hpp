#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "source.hpp"

namespace forebay {

// What one rank of a real run did, out of its telemetry.
struct Trace {
  std::uint64_t rank = 0;
  std::shared_ptr<const SourceSpec> source;  // the work of each batch, in time in which the queue was not full
  std::vector<double> step_s;                // of each step, without waits for a batch
  double mean_step_s = 0;                    // step_s, averaged
  double mean_work_s = 0;                    // 1 / lambda
  std::uint64_t most_depth = 0;
  // As served, for comparison.
  std::uint64_t steps = 0;
  std::uint64_t fresh = 0;
  std::uint64_t uses_p99 = 0;
  std::uint64_t uses_max = 0;
  double stall_s = 0;
  double wall_s = 0;
};

// Reads steps.RANK.jsonl: one file, or all of a folder (telemetry.dir of a run with telemetry.per_step = true), in
// the order of ranks. A batch is placed where it must have been finished: between two steps, evenly with those that
// came between the same steps. Lines that telemetry dropped are bridged; a last line that was cut off is left out. Of a
// run that resumed from a saved state only the steps after the last resume count.
// Throws Error naming file, line and what to do.
[[nodiscard]] std::vector<Trace> read_traces(const std::filesystem::path& path);

}  // namespace forebay
