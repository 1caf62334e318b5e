#include "parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "base/cores.hpp"
#include "base/retry.hpp"
#include "base/thread.hpp"
#include "base/wait.hpp"

namespace forebay::data {

// Chosen: at least 4, even on one core, because indexing mostly waits for the store; at most 64.
unsigned index_threads() {
  constexpr unsigned kFewest = 4;
  constexpr unsigned kMost = 64;
  return std::clamp(cores_of_process().usable(), kFewest, kMost);
}

// Ranges are handed out from a counter, because the costs of iterations differ widely, as folders'
// do. The first exception sets the counter to the end, so that each worker stops after its current
// range. Only the calling thread calls `progress`, because a program's callback may not expect other
// threads.
void run_in_ranges(const ParallelLoop& loop, const std::function<void(std::size_t, std::size_t)>& body) {
  constexpr auto kReportInterval = std::chrono::milliseconds(100);
  Failure failure;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  std::atomic<unsigned> running{0};
  WaitPoint ended;
  const auto guarded = [&](const auto& call) noexcept {
    try {
      call();
    } catch (...) {
      failure.raise(std::current_exception());
      next = loop.count;
    }
  };
  const auto take = [&] { return next.fetch_add(loop.at_once); };
  const auto work = [&] {
    for (std::size_t begin = take(); begin < loop.count; begin = take()) {
      const std::size_t end = std::min(begin + loop.at_once, loop.count);
      body(begin, end);
      done += end - begin;
    }
  };
  const auto report = [&] {
    if (loop.progress) loop.progress(done, loop.count);
  };
  {
    const std::size_t ranges = (loop.count + loop.at_once - 1) / loop.at_once;
    std::vector<std::jthread> workers(std::min<std::size_t>(ranges, std::max(loop.threads, 1U)));
    for (std::jthread& worker : workers) {
      ++running;
      try {
        worker = start_thread<std::jthread>("forebay-index", [&] {
          // Nobody waits for a store that is silent, once the loop has failed or was interrupted.
          const InterruptCheck check([&] {
            if (failure.happened()) throw Stopped();
          });
          guarded(work);
          --running;
          ended.notify_all();
        });
      } catch (const std::exception&) {
        // With fewer threads the work only takes longer.
        --running;
        if (!workers.front().joinable()) throw;
        break;
      }
    }
    // The workers are joined at the end of the block, before anything they refer to is destroyed.
    const auto all_ended = [&] { return running == 0; };
    while (!ended.wait_until(WaitPoint::Clock::now() + kReportInterval, all_ended)) guarded(report);
    guarded(report);
  }
  if (failure.happened()) failure.rethrow();
}

}  // namespace forebay::data
