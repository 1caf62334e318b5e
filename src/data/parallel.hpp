#pragma once

#include <cstddef>
#include <forebay/dataset.hpp>
#include <functional>

namespace forebay {

// Threads that an index build uses: those of the affinity mask, but a few at least, since they mostly wait for the
// store. At least 1.
[[nodiscard]] unsigned index_threads() noexcept;

// Runs `work()` in `threads` threads at once, each call taking jobs until there are none left, while the calling thread
// calls `report()` about ten times a second and once at the end. When a call of `work` or `report` throws, `stop()` is
// called, which must make every work() return soon; the exception is rethrown once all threads have ended. There are
// fewer threads when the system has no more of them; throws Error when it has none.
void run_workers(unsigned threads, const std::function<void()>& work, const std::function<void()>& stop,
                 const std::function<void()>& report);

// A loop whose turns may run in any order and at the same time.
struct ParallelTask {
  std::size_t count = 0;                  // turns
  std::function<void(std::size_t)> body;  // called once for each turn below `count`
  std::size_t scale = 1;                  // units of progress that a turn stands for
  std::size_t total = 0;                  // units of progress in all
};
// Runs it in several threads; the calling thread reports progress. The first exception ends the loop and is rethrown.
void run_parallel(const ParallelTask& task, unsigned threads, const IndexProgress& progress);

}  // namespace forebay
