#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

#include "lending.hpp"
#include "pack_plan.hpp"
#include "read_back.hpp"
#include "sample_packer.hpp"

namespace forebay::archive {

// Finds samples whose bytes in a shard differ from those in the dataset now.
class ChangeFinder {
 public:
  // All must outlive it. `begun`: PackPlan::begun.
  ChangeFinder(const Dataset& dataset, const PackSettings& settings, std::int64_t begun,
               Lending<SamplePacker>& packers);

  // The dataset's number of the first sample that differs; ids[i] is the dataset's number of the
  // shard's sample i. Checks size and ctime of every file, and reads those that were written,
  // renamed or copied there since packing began; an identical copy does not count as a change. A
  // file that is missing or unreadable does not count either, because the shard still has its
  // content. Throws Error if the store keeps failing.
  [[nodiscard]] std::optional<std::uint64_t> find(const ReadShard& shard, const std::vector<std::uint64_t>& ids);

 private:
  class OfShard;

  const Dataset& dataset_;
  const PackSettings& settings_;
  std::int64_t begun_;
  Lending<SamplePacker>& packers_;
};

}  // namespace forebay::archive
