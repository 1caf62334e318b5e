#include "sample_files.hpp"

#include <algorithm>

#include "npz.hpp"
#include "parallel.hpp"

namespace forebay::data {

// For `forebay index --check`: whether every file can be opened, without reading any. In turns of
// 256 files, so that the threads' common counter is taken rarely; a problem's place is its file's
// number, so that no lock is needed.
MissingFiles find_missing_files(const Dataset& dataset, unsigned threads, const IndexProgress& progress) {
  constexpr std::uint64_t kFilesAtOnce = 256;
  const auto* const table = dynamic_cast<const SampleFiles*>(&dataset);
  if (table == nullptr) return {};
  std::vector<std::string> problems(table->files());
  ParallelTask task;
  task.count = (problems.size() + kFilesAtOnce - 1) / kFilesAtOnce;
  task.scale = kFilesAtOnce;
  task.total = problems.size();
  task.body = [&](std::size_t chunk) {
    const std::uint64_t end = std::min<std::uint64_t>((chunk + 1) * kFilesAtOnce, problems.size());
    for (std::uint64_t i = chunk * kFilesAtOnce; i < end; ++i) problems[i] = problem_of_source(table->file_path(i));
  };
  run_parallel(task, threads, progress);
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
