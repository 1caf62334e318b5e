#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::data {

// A dataset that knows the files that its samples, and their fields, are in. Any thread may call.
class SampleFiles {
 public:
  virtual ~SampleFiles() = default;
  [[nodiscard]] virtual std::uint64_t files() const noexcept = 0;
  // REQUIRES: id < size().
  [[nodiscard]] virtual std::uint64_t file_of(std::uint64_t id) const = 0;
  // REQUIRES: file < files().
  [[nodiscard]] virtual std::string file_path(std::uint64_t file) const = 0;
};

// Source files that are missing or not regular files.
struct MissingFiles {
  std::vector<Skipped> files;                 // in order
  std::unordered_set<std::uint64_t> samples;  // in them
};
// Nothing for a dataset of the program's own. Asks the file system about each file, with several threads.
[[nodiscard]] MissingFiles find_missing_files(const Dataset& dataset, unsigned threads, const IndexProgress& progress);

}  // namespace forebay::data
