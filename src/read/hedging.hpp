#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <forebay/dataset.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/wait.hpp"
#include "encoded_queue.hpp"
#include "hedge_rule.hpp"
#include "race.hpp"
#include "read_queue.hpp"
#include "read_request.hpp"
#include "workload.hpp"

namespace forebay {

// Whether a second read of these samples may come before the first: false where a local disk holds the dataset's path
// and the files of a few samples spread over it. A list may name files anywhere, and a folder may link there. Throws
// what dataset.name() throws.
[[nodiscard]] bool may_be_slow(const std::string& path, const Dataset& dataset);

// Batches leave in order, so one slow read holds up all batches behind it. This thread watches the readers' workloads
// and issues a read that is far slower than the others a second time, ahead of all other requests. Everything under way
// is needed within queue.capacity batches, so every slow read counts, the earliest first.
class Hedging {
 public:
  // Starts the thread; throws Error if the system refuses it. All references must outlive it.
  Hedging(std::deque<Workload>& workloads, ReadQueue& requests, EncodedQueue& encoded, BadSampleSink& sink);
  ~Hedging() { stop(); }
  Hedging(const Hedging&) = delete;
  Hedging& operator=(const Hedging&) = delete;

  // Joins the thread, which never blocks for long. May be called again, by the same thread.
  void stop();

  // --- readers ---
  // A read spent `time` in the store.
  void read_took(std::chrono::nanoseconds time) noexcept { rule_.add(time); }
  // The race that ReadRequest::hedge names. Call once for each. REQUIRES: a number other than 0 from the read queue.
  [[nodiscard]] std::shared_ptr<Race> race(std::uint32_t number);

 private:
  void run() noexcept;
  // Returns when to look again.
  [[nodiscard]] WaitPoint::Clock::time_point look();
  void relieve(Workload& workload);
  void hedge(Workload& workload);

  struct Slow {
    std::uint64_t order;
    Workload* workload;
  };

  WaitPoint wake_;
  std::deque<Workload>& workloads_;
  ReadQueue& requests_;
  EncodedQueue& encoded_;
  BadSampleSink& sink_;
  HedgeRule rule_;
  std::vector<Slow> slow_;
  std::vector<ReadRequest> left_;
  std::vector<EncodedSample> read_;
  std::mutex mutex_;  // of what follows
  std::unordered_map<std::uint32_t, std::shared_ptr<Race>> races_;
  std::uint32_t last_race_ = 0;

  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace forebay
