#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::archive {

// What the images of a set are, each counted once however many samples are in it.
struct PackTally {
  std::uint64_t samples = 0;
  std::uint64_t as_is = 0;
  std::uint64_t coefficients = 0;
  std::uint64_t pixels = 0;
  std::uint64_t original_bytes = 0;  // of all images and of fields beside them
  std::uint64_t file_bytes = 0;      // of the shards
};

struct PackCheck {
  std::uint64_t shards = 0;
  PackTally tally;
  std::vector<Skipped> damaged;  // "FILE" or "FILE[record N, KEY]", and what is wrong
};
// Reads all of a packed set again: each sample's CRC-32C, and the hash of the original that is made of it. Throws
// ConfigError if it is no packed set, or not all of one.
[[nodiscard]] PackCheck check_pack(const std::filesystem::path& folder, unsigned threads,
                                   const IndexProgress& progress);

}  // namespace forebay::archive
