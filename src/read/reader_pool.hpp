#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <forebay/dataset.hpp>
#include <memory>

#include "base/thread.hpp"
#include "base/wait.hpp"
#include "byte_budget.hpp"
#include "coalesced_reads.hpp"
#include "hedging.hpp"
#include "queues.hpp"
#include "read_pace.hpp"
#include "requests.hpp"
#include "store_outage.hpp"
#include "throttle.hpp"
#include "workload.hpp"

namespace forebay::read {

// The objects that readers use; all must outlive the pool.
struct ReaderLinks {
  const Dataset& dataset;
  ReadQueue& requests;
  ByteBudget& budget;
  EncodedQueue& encoded;
  WorkerErrors& sink;
  WorkerTotals& totals;
  StoreOutage* outage;                        // receives failed reads
  const StorageThrottle* throttle = nullptr;  // null = no emulated store
  CoalescedReads* coalesced = nullptr;        // null = each sample is read by itself
  ReadPace* pace = nullptr;                   // receives the times of reads; null = not needed
};

struct ReaderOptions {
  unsigned threads = 1;        // to begin with, at least 1
  unsigned most = 0;           // the most for workers().want(); 0 = `threads`
  std::uint32_t attempts = 4;  // reads of one sample that find its file cut short, at least 1
  // Before the second read; doubles each time, up to a second.
  std::chrono::nanoseconds backoff = std::chrono::milliseconds(10);
  bool hedge = false;  // issue a second read of slow samples (Hedging)
};

// The I/O threads: they take requests, read the samples' bytes into buffers of the budget and pass
// them to the decoders. A transient error is retried after a backoff, for as long as links.outage
// permits; its error then ends the run. A file that is cut short is read options.attempts times and
// then goes to sink.bad_sample, as a permanent error does immediately. Anything else that is thrown
// goes to sink.worker_failed and ends its thread. With options.hedge another thread issues a slow
// read a second time; even so, each sample is handed on, or reported as bad, exactly once.
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

}  // namespace forebay::read
