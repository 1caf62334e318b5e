#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <forebay/dataset.hpp>
#include <memory>

#include "base/thread.hpp"
#include "base/wait.hpp"
#include "byte_budget.hpp"
#include "hedging.hpp"
#include "queues.hpp"
#include "read_pace.hpp"
#include "requests.hpp"
#include "stretches.hpp"
#include "throttle.hpp"
#include "workload.hpp"

namespace forebay {

// The objects that readers use; all must outlive the pool.
struct ReaderLinks {
  const Dataset& dataset;
  ReadQueue& requests;
  ByteBudget& budget;
  EncodedQueue& encoded;
  BadSampleSink& sink;
  WorkerTotals& totals;
  const StorageThrottle* throttle = nullptr;  // null = no emulated store
  Stretches* stretches = nullptr;             // null = each sample is read by itself
  ReadPace* pace = nullptr;                   // is told how long reads take; null = nobody asks
};

struct ReaderOptions {
  unsigned threads = 1;                                              // to begin with, at least 1
  unsigned most = 0;                                                 // the most for workers().want(); 0 = `threads`
  std::uint32_t attempts = 4;                                        // reads of one sample in all, at least 1
  std::chrono::nanoseconds backoff = std::chrono::milliseconds(10);  // before the second read; doubles each time
  bool hedge = false;                                                // issue a second read of slow samples (Hedging)
};

// The I/O threads: they take requests, read the samples' bytes into buffers of the budget and pass them to the
// decoders. A transient error is retried after a backoff; one that persists, and a permanent one, goes to
// sink.bad_sample. Anything else that is thrown goes to sink.worker_failed and ends its thread. With options.hedge
// another thread issues a slow read a second time; even so, each sample is handed on, or reported as bad, exactly once.
class ReaderPool {
 public:
  // Starts the threads. Throws Error if the system refuses one.
  ReaderPool(const ReaderLinks& links, const ReaderOptions& options);
  ~ReaderPool() { stop(); }
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  // Closes the request queue and the budget, breaks every wait of the threads and joins them; reads inside the dataset
  // itself finish first. May be called again, by the same thread.
  void stop() { workers_.stop(); }
  // The same, but waits only this long for the threads; true once all have ended. Before stop(), any number of times.
  [[nodiscard]] bool end_within(std::chrono::nanoseconds patience) { return workers_.end_within(patience); }

  [[nodiscard]] WorkerPool& workers() noexcept { return workers_; }
  [[nodiscard]] const WorkerPool& workers() const noexcept { return workers_; }

 private:
  void run(unsigned thread, WorkerStatus& status) noexcept;
  void end() noexcept;

  StopSignal stop_;
  ReaderLinks links_;
  ReaderOptions options_;
  std::deque<Workload> workloads_;    // by thread
  std::unique_ptr<Hedging> hedging_;  // null = slow reads are waited for
  WorkerPool workers_;
};

}  // namespace forebay
