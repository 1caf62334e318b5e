#include "parallel.hpp"

#include <sched.h>
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread.hpp"
#include "base/wait.hpp"

namespace forebay {
namespace {

constexpr auto kReportInterval = std::chrono::milliseconds(100);

// The first exception of several threads.
class FirstFailure {
 public:
  void keep_current() {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  // REQUIRES: no other thread uses it any more.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

unsigned index_threads() noexcept {
  constexpr unsigned kFewest = 4;
  constexpr unsigned kMost = 64;
  cpu_set_t mask;
  const unsigned cores = ::sched_getaffinity(0, sizeof mask, &mask) == 0 ? static_cast<unsigned>(CPU_COUNT(&mask))
                                                                         : std::thread::hardware_concurrency();
  return std::clamp(cores, kFewest, kMost);
}

void run_workers(unsigned threads, const std::function<void()>& work, const std::function<void()>& stop,
                 const std::function<void()>& report) {
  FirstFailure failure;
  WaitPoint ended;
  std::atomic<unsigned> running{0};
  {
    const auto guarded = [&](const std::function<void()>& call) noexcept {
      try {
        call();
      } catch (...) {
        failure.keep_current();
        stop();
      }
    };
    std::vector<std::jthread> workers;
    workers.reserve(std::max(threads, 1U));
    for (unsigned i = 0; i < std::max(threads, 1U); ++i) {
      ++running;
      try {
        workers.push_back(start_thread<std::jthread>("forebay-index", [&] {
          guarded(work);
          --running;
          ended.notify_all();
        }));
      } catch (const std::exception&) {
        // Fewer threads do the same work, only slower.
        --running;
        if (workers.empty()) throw;
        break;
      }
    }
    const auto all_ended = [&] { return running == 0; };
    while (!ended.wait_until(WaitPoint::Clock::now() + kReportInterval, all_ended)) guarded(report);
    guarded(report);
  }
  failure.rethrow();
}

void run_parallel(const ParallelTask& task, unsigned threads, const IndexProgress& progress) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < task.count; i = next++) {
      task.body(i);
      ++done;
    }
  };
  const auto stop = [&] { next = task.count; };
  const auto report = [&] {
    if (progress) progress(std::min(done * task.scale, task.total), task.total);
  };
  const auto useful = static_cast<unsigned>(std::min<std::size_t>(threads, std::max<std::size_t>(task.count, 1)));
  run_workers(useful, work, stop, report);
}

}  // namespace forebay
