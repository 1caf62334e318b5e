#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "source.hpp"

namespace forebay {

// What one rank of a real run did, from its telemetry.
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

// Reads steps.RANK.jsonl: one file, or all of a folder (telemetry.dir of a run with telemetry.per_step = true), in the
// order of ranks. Batches that were finished between the same two steps are spread evenly over that time. Gaps where
// telemetry dropped lines are bridged; a truncated last line is ignored. Of a run that was resumed, only the steps
// after the last resume count. Throws Error naming file, line and what to do.
[[nodiscard]] std::vector<Trace> read_traces(const std::filesystem::path& path);

}  // namespace forebay
