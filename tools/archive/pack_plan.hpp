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
  std::int32_t pixels = 0;                   // > 0: images are stored as pixels, the longer side at most this
  make::ImageOptions images;                 // for decoding: to store pixels, and to check packed JPEG files
  bool coefficients = true;                  // store JPEG files as coefficients; false: as they are
  SampleUnit samples = SampleUnit::objects;  // the unit with which the dataset was opened
  unsigned threads = 1;
  StorePatience patience = {};  // with the store
  // This process packs part number `part` of `parts`.
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  // How many out of `samples` samples may be bad. Empty: all.
  std::function<std::uint64_t(std::uint64_t samples)> allowed_bad = {};
  // Whether packing also fails if most of a class, of a folder or of a container is bad, as a run
  // with max_bad = "auto" does.
  bool needs_all_parts = false;
  std::uint64_t known_bad = 0;  // samples that the index left out, for messages
};
[[nodiscard]] bool are_few_bad(const PackSettings& settings, std::uint64_t bad, std::uint64_t samples);
// Throws Error, which names `last`, if `bad` of `samples` is more than the settings allow.
void require_few_bad(const PackSettings& settings, std::uint64_t bad, std::uint64_t samples, const Skipped& last);

// Which samples go into which shard. It depends only on the dataset and on the settings that
// determine the result. The first process writes the plan to the manifest; all others, then and
// later, follow the manifest.
struct PackPlan {
  data::Hash128 set;
  std::vector<std::uint64_t> firsts;  // first sample of each shard; then the number of all samples
  // The time of the target's file system, in seconds, before anything was packed. 0: not known, or
  // it was begun with data in another folder.
  std::int64_t begun = 0;

  [[nodiscard]] std::uint32_t shards() const noexcept { return static_cast<std::uint32_t>(firsts.size() - 1); }
};

// Creates the folder that a user named, unless it is there. Throws ConfigError.
void create_folder(const std::filesystem::path& folder);

inline constexpr std::string_view kPackManifest = "manifest.json";

// Returns the plan in the folder's manifest, or makes one and writes it there. Creates the folder.
// Throws ConfigError if the folder holds anything else, or the plan of another dataset or of other
// settings; Error naming a file that cannot be written.
[[nodiscard]] PackPlan plan_pack(const Dataset& dataset, const PackSettings& settings, const IndexProgress& progress);

// Whether the sample is another object of the same image as the one before it, so that one record
// serves both. REQUIRES: 0 < id < size().
[[nodiscard]] bool shares_record(const Dataset& dataset, std::uint64_t id);

}  // namespace forebay::archive
