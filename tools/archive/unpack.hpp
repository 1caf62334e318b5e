#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::archive {

struct UnpackReport {
  std::uint64_t files = 0;  // written
  std::uint64_t bytes = 0;
  std::uint64_t pixels = 0;     // images that are stored as pixels, whose files are gone
  std::uint64_t renamed = 0;    // files whose own names are taken or impossible
  std::vector<Skipped> failed;  // "FILE[record N, KEY]", and why it was not written
};

// Writes the files of a packed set into a folder, which must be empty or absent, and in no case outside of it, whatever
// names the set has. Each file has been compared with the hash of the original. Which of several files gets a name that
// they share depends on the set alone: the first. Throws ConfigError if there is no packed set or the folder is not
// empty; Error naming a file that cannot be written.
[[nodiscard]] UnpackReport unpack(const std::filesystem::path& set, const std::filesystem::path& folder,
                                  unsigned threads, const IndexProgress& progress);

}  // namespace forebay::archive
