#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace forebay {

// How long reads take of late, whichever thread makes them. Where they are quick their bytes lie in memory: a decoder
// then reads a sample itself, which costs less than to be handed it by another thread (QuickReader). Any thread may
// call.
class ReadPace {
 public:
  // A read took `ns`. Threads that call at the same time may lose one of their reads, which the next makes good.
  void add(std::int64_t ns) noexcept {
    const std::int64_t mean = mean_ns_.load(std::memory_order_relaxed);
    mean_ns_.store(mean + (std::min(ns, kLongest * (mean + 1)) - mean) / kMemory, std::memory_order_relaxed);
  }

  // False while nothing is known. A thread that lost its core in a read does not change it, several slow reads do.
  [[nodiscard]] bool is_quick() const noexcept { return mean_ns_.load(std::memory_order_relaxed) < kQuick; }

 private:
  // A file of a few kB, opened, read and closed out of the page cache, takes 2,000 to 6,000; the first access to a
  // solid-state disk 50,000.
  static constexpr std::int64_t kQuick = 12'000;
  static constexpr std::int64_t kMemory = 16;  // the number of reads that the mean covers
  static constexpr std::int64_t kLongest = 8;  // times the mean: what one that was held up counts at most

  alignas(64) std::atomic<std::int64_t> mean_ns_{1'000'000};
};

}  // namespace forebay
