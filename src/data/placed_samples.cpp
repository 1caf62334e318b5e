#include "placed_samples.hpp"

#include <algorithm>
#include <string>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "npy.hpp"
#include "parallel.hpp"

namespace forebay::data {

// Equal ranges (two fields from one archive member) are shared and count once. Ranges that overlap
// only partly cannot be read into two buffers in one request. If there is a checksum, it fixes the
// bytes that are read, and nothing beyond them can be added.
bool enclose(std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges, Placement& placement) {
  std::ranges::sort(ranges);
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  std::uint64_t wanted = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (i > 0 && ranges[i].first < ranges[i - 1].second) return false;
    wanted += ranges[i].second - ranges[i].first;
  }
  const auto [begin, last] = std::pair(ranges.front().first, ranges.back().second);
  const bool is_checked = placement.before + placement.after > 0;
  if (is_checked) return begin >= placement.begin() && last <= placement.end();
  placement.before = placement.offset - begin;
  placement.after = last - placement.offset - placement.length;
  placement.idle = last - begin - wanted;
  return true;
}

// Only fields of kind bytes have a fixed-size place in the batch; others are checked when they are
// decoded.
bool fits_batch(const Field& field, std::uint64_t bytes) noexcept {
  return field.kind != FieldKind::bytes || bytes <= field.sample_bytes();
}

SampleError too_large_for_batch(const Field& field, std::uint64_t bytes) {
  return SampleError(counted(bytes, "byte") + ", but a batch has room for " + counted(field.sample_bytes(), "byte") +
                     " of each sample (most)");
}

// For `forebay index --check`: whether every file exists and is a regular file, without reading
// any. A thread takes 256 files at a time, so that the shared counter is accessed rarely; each file
// has its own element of `problems`, so no lock is needed.
MissingFiles find_missing_files(const Dataset& dataset, unsigned threads, const IndexProgress& progress) {
  constexpr std::uint64_t kFilesAtOnce = 256;
  const auto* const table = dynamic_cast<const SampleFiles*>(&dataset);
  if (table == nullptr) return {};
  std::vector<std::string> problems(table->files());
  run_parallel({problems.size(), threads, progress, kFilesAtOnce},
               [&](std::size_t i) { problems[i] = problem_of_source(table->file_path(i)); });
  MissingFiles missing;
  for (std::uint64_t i = 0; i < problems.size(); ++i) {
    if (!problems[i].empty()) missing.files.push_back({table->file_path(i), problems[i], true});
  }
  for (std::uint64_t id = 0; !missing.files.empty() && id < dataset.size(); ++id) {
    if (!problems[table->file_of(id)].empty()) missing.samples.insert(id);
  }
  return missing;
}

}  // namespace forebay::data
