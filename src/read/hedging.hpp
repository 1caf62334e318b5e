#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
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
#include "queues.hpp"
#include "requests.hpp"
#include "workload.hpp"

namespace forebay::read {

// How long reads take: a histogram with four steps per doubling, so that a step is at most a fifth
// of its upper end wide. Recent reads weigh most, so that it follows a store that changes.
class ReadTimes {
 public:
  // A read took `time`. Any thread.
  void add(std::chrono::nanoseconds time) noexcept;

  // --- one thread ---
  // Includes the reads that were added since the last call; returns their number.
  std::uint64_t gather() noexcept;
  // The number of reads that the figures rest on; older ones count for less than one.
  [[nodiscard]] double weight() const noexcept { return weight_; }
  // The time that this share of the reads did not exceed, rounded up to the end of a step; 0 if there are none.
  [[nodiscard]] std::chrono::nanoseconds quantile(double share) const noexcept;

 private:
  // Four steps to each doubling, from a microsecond to minutes.
  static constexpr std::size_t kSteps = 112;
  // Beyond this weight all reads are scaled down to half of it.
  static constexpr double kMemory = 2048;

  [[nodiscard]] static std::size_t step_of(std::uint64_t ns) noexcept;
  [[nodiscard]] static std::uint64_t end_of(std::size_t step) noexcept;

  std::array<std::atomic<std::uint64_t>, kSteps> added_{};
  std::array<std::uint64_t, kSteps> gathered_{};
  std::array<double, kSteps> weights_{};
  double weight_ = 0;
};

// When a read counts as far slower than the others, and how many second reads there may be. No threads, no clocks.
//
//  - A read is slow when it takes three times the 95th percentile, and at least ten milliseconds: a store with constant
//    latency has no slow reads, nor has one whose every tenth read is slow.
//  - Every read earns a twentieth of a second read, so there are never more than 5 % of those.
//
// The shares and times are chosen.
class HedgeRule {
 public:
  static constexpr std::chrono::nanoseconds kUnknown = std::chrono::nanoseconds::max();
  static constexpr std::chrono::milliseconds kFloor{10};

  // A read took `time`. Any thread.
  void add(std::chrono::nanoseconds time) noexcept { times_.add(time); }

  // --- one thread ---
  // Includes the reads that were added since the last call.
  void update() noexcept {
    earned_ = std::min(earned_ + kShare * static_cast<double>(times_.gather()), kMostEarned);
    if (times_.weight() < kFewestReads) return;
    slow_after_ = std::max<std::chrono::nanoseconds>(kFloor, kTimes * times_.quantile(1 - kShare));
  }
  // kUnknown until enough reads were seen.
  [[nodiscard]] std::chrono::nanoseconds slow_after() const noexcept { return slow_after_; }
  [[nodiscard]] bool may_hedge() const noexcept { return earned_ >= kPrice; }
  // REQUIRES: may_hedge().
  void hedge() noexcept { earned_ -= kPrice; }

 private:
  static constexpr double kShare = 0.05;
  static constexpr double kPrice = 1 + kShare;  // a second read is added like any other, and must earn nothing
  static constexpr double kMostEarned = 16;     // however long no read has been slow
  static constexpr double kFewestReads = 64;    // fewer would not show the tail
  static constexpr int kTimes = 3;

  ReadTimes times_;
  double earned_ = 0;
  std::chrono::nanoseconds slow_after_ = kUnknown;
};

// Whether a second read of these samples may finish before the first: false if a local disk holds the dataset's path
// and the files of a few samples spread over it. A list may name files anywhere, and a folder may link there. Throws
// what dataset.name() throws.
[[nodiscard]] bool may_be_slow(const std::string& path, const Dataset& dataset);

// Batches leave in order, so one slow read delays all later batches. This thread watches the readers' workloads and
// issues a read that is far slower than the others a second time, ahead of all other requests. Everything in progress
// is needed within queue.capacity batches, so every slow read counts, the earliest first.
class Hedging {
 public:
  // Starts the thread; throws Error if the system refuses it. All references must outlive it.
  Hedging(std::deque<Workload>& workloads, ReadQueue& requests, EncodedQueue& encoded, WorkerErrors& sink);
  ~Hedging() { stop(); }
  Hedging(const Hedging&) = delete;
  Hedging& operator=(const Hedging&) = delete;

  // Joins the thread, which never blocks for long. May be called again, by the same thread.
  void stop();

  // --- readers ---
  // A read spent `time` in the store.
  void read_took(std::chrono::nanoseconds time) noexcept { rule_.add(time); }
  // The hedged read that ReadRequest::hedge names. Call once for each. REQUIRES: a number other than 0 from the read
  // queue.
  [[nodiscard]] std::shared_ptr<HedgedRead> hedged(std::uint32_t number);

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
  WorkerErrors& sink_;
  HedgeRule rule_;
  std::vector<Slow> slow_;
  std::vector<ReadRequest> left_;
  std::vector<EncodedSample> read_;
  std::mutex mutex_;  // guards the members below
  std::unordered_map<std::uint32_t, std::shared_ptr<HedgedRead>> hedged_reads_;
  std::uint32_t last_hedged_ = 0;

  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace forebay::read
