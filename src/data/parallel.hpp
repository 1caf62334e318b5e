#pragma once

#include <cstddef>
#include <forebay/dataset.hpp>
#include <functional>

namespace forebay {

// Threads that an index build uses: those of the affinity mask, but a few at least, since they mostly wait for the
// store. At least 1.
[[nodiscard]] unsigned index_threads() noexcept;

// A loop whose turns may run in any order and at the same time.
struct ParallelTask {
  std::size_t count = 0;                  // turns
  std::function<void(std::size_t)> body;  // called once for each turn below `count`
  std::size_t scale = 1;                  // units of progress that a turn stands for
  std::size_t total = 0;                  // units of progress in all
};
// Runs it in several threads, while the calling thread calls `progress`, unless that is empty, about ten times a second
// and once at the end. The first exception of either ends the loop and is rethrown once all threads have ended. There
// are fewer threads when the system has no more of them; throws Error when it has none.
void run_parallel(const ParallelTask& task, unsigned threads, const IndexProgress& progress);

}  // namespace forebay
