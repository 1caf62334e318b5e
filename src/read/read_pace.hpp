#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace forebay::read {

// Determines whether reads are so quick that their bytes must come from memory. A decoder then
// reads a sample itself, which costs less than a hand-over between threads (QuickReader). Any
// thread may call any member.
class ReadPace {
 public:
  // A read took `ns`. Concurrent calls may lose one of their reads, which later ones make up for.
  void add(std::int64_t ns) noexcept {
    const std::int64_t mean = mean_ns_.load(std::memory_order_relaxed);
    mean_ns_.store(mean + (std::min(ns, kLongest * (mean + 1)) - mean) / kMemory, std::memory_order_relaxed);
  }

  // A decoder has made `reads` reads by `now_ns`; `from_disk`: whether it had to wait for the disk.
  // The mean does not show that: a cache that lacks one sample in twenty still looks quick,
  // although readers would have hidden these waits.
  void add_group(std::size_t reads, bool from_disk, std::int64_t now_ns) noexcept {
    if (from_disk) from_disk_.fetch_add(1, std::memory_order_relaxed);
    if (reads_.fetch_add(reads, std::memory_order_relaxed) + reads < kWindow) return;
    const std::size_t all = reads_.exchange(0, std::memory_order_relaxed);
    const std::size_t waited = from_disk_.exchange(0, std::memory_order_relaxed);
    if (all < kWindow) return;  // another thread has evaluated this window
    if (waited * kRare <= all) {
      rest_ns_.store(kFirstRest, std::memory_order_relaxed);
    } else {
      const std::int64_t rest = rest_ns_.load(std::memory_order_relaxed);
      rests_until_.store(now_ns + rest, std::memory_order_relaxed);
      rest_ns_.store(std::min(2 * rest, kLongestRest), std::memory_order_relaxed);
      rests_.store(true, std::memory_order_relaxed);
    }
  }

  // False while nothing is known. A single read in which the thread lost its core hardly changes
  // it; several slow reads do.
  [[nodiscard]] bool is_quick() const noexcept {
    return mean_ns_.load(std::memory_order_relaxed) < kQuick && !rests_.load(std::memory_order_relaxed);
  }
  // The same at `now_ns`. After too many waits for the disk, decoders leave reading to the readers
  // for a while, and then try again.
  [[nodiscard]] bool is_quick(std::int64_t now_ns) noexcept {
    if (rests_.load(std::memory_order_relaxed) && now_ns >= rests_until_.load(std::memory_order_relaxed)) {
      rests_.store(false, std::memory_order_relaxed);
    }
    return is_quick();
  }

 private:
  // In nanoseconds. Opening, reading and closing a file of a few kB takes 2,000 to 7,000 from the
  // page cache; the first access to a solid-state disk takes 50,000.
  static constexpr std::int64_t kQuick = 40'000;
  static constexpr std::int64_t kMemory = 16;  // the number of reads that the mean covers
  static constexpr std::int64_t kLongest = 5;  // the most that one delayed read counts, in multiples of the mean
  static constexpr std::size_t kWindow = 512;  // reads
  static constexpr std::size_t kRare = 100;  // one in so many reads may wait: a wait takes as long as ten small samples
  static constexpr std::int64_t kFirstRest = 1'000'000'000;
  static constexpr std::int64_t kLongestRest = 64 * kFirstRest;

  alignas(64) std::atomic<std::int64_t> mean_ns_{1'000'000};
  std::atomic<bool> rests_{false};
  std::atomic<std::int64_t> rests_until_{0};
  std::atomic<std::int64_t> rest_ns_{kFirstRest};
  alignas(64) std::atomic<std::size_t> reads_{0};
  std::atomic<std::size_t> from_disk_{0};
};

}  // namespace forebay::read
