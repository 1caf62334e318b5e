#pragma once

#include <cstddef>
#include <functional>

#include <forebay/dataset.hpp>

namespace forebay::data {

// The number of threads for an index build: one for each core of this process (base/cores.hpp), but at least a few,
// since they mostly wait for the store.
[[nodiscard]] unsigned index_threads();

// A loop whose iterations may run in any order and concurrently.
struct ParallelLoop {
  std::size_t count = 0;  // iterations
  unsigned threads = 1;
  IndexProgress progress = {};  // of iterations; may be empty
  std::size_t at_once = 1;      // iterations that a thread takes at a time
};

// Calls body(begin, end) for ranges of at most `at_once` iterations, which begin at multiples of it, on several threads
// while the calling thread calls `progress` about ten times a second and once at the end. The first exception of either
// ends the loop and is rethrown once all threads have ended. Uses fewer threads if the system refuses some; throws
// Error if it refuses all.
void run_in_ranges(const ParallelLoop& loop, const std::function<void(std::size_t begin, std::size_t end)>& body);

// The same with body(i) for each iteration.
template <typename Body>
void run_parallel(const ParallelLoop& loop, const Body& body) {
  run_in_ranges(loop, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace forebay::data
