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

// Finds samples of which a shard has other bytes than the dataset now. Only samples in files of their own can change
// unnoticed; what is in a container is told by the container.
class ChangeFinder {
 public:
  // All must outlive it. The folder has its manifest.
  ChangeFinder(const Dataset& dataset, const PackSettings& settings, Lending<SamplePacker>& packers);

  // The first such sample, where ids[i] is the dataset's number of the shard's sample i. Looks at the size and the time
  // of every file, and reads those that somebody wrote or renamed, or copied there, since packing began: a copy that is
  // the same is no change. A file that is gone or cannot be read is none either: the shard has it. Throws Error if the
  // store fails again and again.
  [[nodiscard]] std::optional<std::uint64_t> find(const ReadShard& shard, const std::vector<std::uint64_t>& ids);

 private:
  class OfShard;

  const Dataset& dataset_;
  const PackSettings& settings_;
  Lending<SamplePacker>& packers_;
  std::int64_t since_;  // seconds, by the clock of files
};

}  // namespace forebay::archive
