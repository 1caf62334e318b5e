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
  std::uint32_t kept = 0;  // were there already, whole
  PackTally tally;         // of those written and kept
  // Of each file that was there and was written again, because an image or field is another one now: the first such.
  std::vector<Skipped> changed;
  std::vector<Skipped> left_out;
  // Fields that are absent in the set although there is something in the dataset, which cannot be read.
  std::vector<Skipped> lost_fields;

  [[nodiscard]] std::uint64_t bad() const noexcept { return left_out.size() + lost_fields.size(); }
};

// Packs a dataset, or this process's part of it. The bytes of the shards depend on the dataset and the settings
// alone: not on threads, parts, or how often it was interrupted. Shards that are there already are kept if their
// headers and indexes are sound, they have what the dataset has now, and what they lack still cannot be read. Of
// several processes the one that ends last counts what is bad in all shards. Throws ConfigError for settings that do
// not suit the dataset, and as plan_pack() does; Error, naming the file, if something cannot be read or written, or
// more samples are bad than the settings allow. Then what was finished is kept for the next time.
[[nodiscard]] PackReport pack_dataset(const Dataset& dataset, const PackSettings& settings,
                                      const IndexProgress& progress);

}  // namespace forebay::archive
