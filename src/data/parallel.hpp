#pragma once

#include <cstddef>
#include <forebay/dataset.hpp>
#include <functional>

namespace forebay::data {

// The number of threads for an index build: one for each core of this process (base/cores.hpp), but at least a few,
// since they mostly wait for the store.
[[nodiscard]] unsigned index_threads();

// A loop whose iterations may run in any order and concurrently.
struct ParallelTask {
  std::size_t count = 0;                  // iterations
  std::function<void(std::size_t)> body;  // called once for each iteration below `count`
  std::size_t scale = 1;                  // units of progress per iteration
  std::size_t total = 0;                  // units of progress in total
};
// Runs the loop on several threads while the calling thread calls `progress`, unless that is empty, about ten times a
// second and once at the end. The first exception of either ends the loop and is rethrown once all threads have ended.
// Uses fewer threads if the system refuses some; throws Error if it refuses all.
void run_parallel(const ParallelTask& task, unsigned threads, const IndexProgress& progress);

}  // namespace forebay::data
