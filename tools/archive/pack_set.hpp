#pragma once

#include <cstdint>
#include <vector>

#include <forebay/dataset.hpp>

#include "pack_check.hpp"
#include "pack_plan.hpp"

namespace forebay::archive {

struct PackReport {
  std::uint32_t shards = 0;  // of the whole set
  std::uint32_t written = 0;
  std::uint32_t kept = 0;  // existing shards that were kept
  PackTally tally;         // of those written and kept
  // For each shard that was written again because an image or field had changed: the first one that
  // had.
  std::vector<Skipped> changed;
  std::vector<Skipped> left_out;
  // Fields that are missing in the set because they could not be read. (A field that the sample
  // does not have is not listed.)
  std::vector<Skipped> lost_fields;

  [[nodiscard]] std::uint64_t bad() const noexcept { return left_out.size() + lost_fields.size(); }
};

// Packs a dataset, or this process's part of it. The bytes of the shards depend only on the dataset
// and the settings, not on threads, parts or interruptions. An existing shard is kept if its header
// and index are sound, its samples have not changed, and what it lacks still cannot be read. Of
// several processes, the last to finish counts the bad samples of all shards. Throws ConfigError
// for settings that do not suit the dataset, and as plan_pack() does; Error, naming the file, if
// something cannot be read or written, or if more samples are bad than the settings allow. Finished
// shards then stay for the next time.
[[nodiscard]] PackReport pack_dataset(const Dataset& dataset, const PackSettings& settings,
                                      const IndexProgress& progress);

}  // namespace forebay::archive
