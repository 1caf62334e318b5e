#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "once_job.hpp"

// Whether a job that was stopped and goes on serves bit for bit what one that never stopped does.
namespace forebay::testing {

// One way to run: the same job uninterrupted, and stopped at each of three points.
struct IdentityRow {
  std::uint32_t ranks = 1;
  std::string mode;
  std::int64_t threads = 1;      // readers, and as many decoders
  std::uint64_t stops = 0;       // points that the job was stopped at and went on from
  std::uint64_t compared = 0;    // fresh batches after the stops, over all ranks
  std::uint64_t mismatches = 0;  // of them
  std::uint64_t handed_over = 0;
  std::vector<std::string> violations;
};

// Fresh batches on each rank that are compared after each stop.
inline constexpr std::uint64_t kComparedBatches = 50;

// `ranks` of the stage's ranks, in both modes, with 1 and 3 threads of each kind. Collective over the stage. All are
// compared with an uninterrupted job on 1 thread, so that the number of threads is seen not to matter.
[[nodiscard]] std::vector<IdentityRow> check_identity(std::uint32_t ranks, Stage& stage);

}  // namespace forebay::testing
