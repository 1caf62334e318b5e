#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

#include "data/pack_shard.hpp"
#include "make/image.hpp"
#include "sample_bytes.hpp"

namespace forebay::archive {

struct PackSettings {
  std::filesystem::path out;
  std::uint64_t shard_bytes = std::uint64_t{512} << 20U;  // of originals, about
  std::int32_t pixels = 0;                   // > 0: images are stored as pixels, their longer side at most so long
  make::ImageOptions images;                 // for those, and for JPEG files that are packed
  bool coefficients = true;                  // JPEG files are packed; else they are stored as they are, too
  SampleUnit samples = SampleUnit::objects;  // that the dataset was opened with
  unsigned threads = 1;
  StorePatience patience = {};  // with the store
  // Of several processes that pack one dataset, this is the one with number `part` of `parts`.
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  // How many of so many samples may be bad. Empty: all.
  std::function<std::uint64_t(std::uint64_t samples)> allowed_bad = {};
  // Whether most of a class, a folder or a file of records may not be bad either, as in a run with max_bad = "auto".
  bool needs_all_parts = false;
};
[[nodiscard]] bool are_few_bad(const PackSettings& settings, std::uint64_t bad, std::uint64_t samples);
// Throws Error, naming the last one, when so many of `samples` could not be read that packing must end.
void require_few_bad(const PackSettings& settings, std::uint64_t bad, std::uint64_t samples, const Skipped& last);

// Which samples go into which shard. It depends on the dataset and the settings that decide the result; the first
// process that comes writes it down, and all others, then and later, follow what was written.
struct PackPlan {
  data::Hash128 set;
  std::vector<std::uint64_t> firsts;  // of each shard; then the number of all samples

  [[nodiscard]] std::uint32_t shards() const noexcept { return static_cast<std::uint32_t>(firsts.size() - 1); }
};

inline constexpr std::string_view kPackManifest = "manifest.json";

// The plan in the folder's manifest, else a new one, which is then there. Creates the folder. Throws ConfigError if the
// folder holds anything else, or the plan of another dataset or other settings; Error naming a file that cannot be
// written.
[[nodiscard]] PackPlan plan_pack(const Dataset& dataset, const PackSettings& settings, const IndexProgress& progress);

// Whether a sample has the same bytes as the one before it, so that one record serves both: two objects of one image.
// REQUIRES: 0 < id < size().
[[nodiscard]] bool shares_record(const Dataset& dataset, std::uint64_t id);

}  // namespace forebay::archive
