#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::archive {

// Counts of a packed set. An image that several samples share is counted once.
struct PackTally {
  std::uint64_t samples = 0;
  std::uint64_t as_is = 0;
  std::uint64_t coefficients = 0;
  std::uint64_t pixels = 0;
  std::uint64_t original_bytes = 0;  // of all images and of fields stored as bytes
  std::uint64_t file_bytes = 0;      // of the shards
};

struct PackCheck {
  std::uint64_t shards = 0;
  PackTally tally;
  std::vector<Skipped> damaged;  // "FILE" or "FILE[record N, KEY]", and what is wrong
};
// Reads the whole packed set and checks each sample's CRC-32C and the hash of the original restored
// from it. Throws ConfigError if the folder holds no packed set, or an incomplete one.
[[nodiscard]] PackCheck check_pack(const std::filesystem::path& folder, unsigned threads,
                                   const IndexProgress& progress);

}  // namespace forebay::archive
