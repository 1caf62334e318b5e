#pragma once

#include <atomic>
#include <cstdint>

namespace forebay {

// Totals that worker threads keep for telemetry: relaxed counters, exact once the threads are joined.
struct WorkerTotals {
  std::atomic<std::uint64_t> bytes_read{0};
  std::atomic<std::uint64_t> read_ns{0};  // in the store, with emulated delays, without waits for the budget
  std::atomic<std::uint64_t> reads{0};    // that delivered their sample
  std::atomic<std::uint64_t> retries{0};  // of a read after a transient error
  // Second reads of slow samples, not among `reads`; and those of them that were quicker.
  std::atomic<std::uint64_t> hedged_reads{0};
  std::atomic<std::uint64_t> hedges_won{0};
  std::atomic<std::uint64_t> decode_ns{0};
  std::atomic<std::uint64_t> samples{0};
  // Of the samples: decoded at full size and alone, where transform.decode = "scaled" would have decoded them smaller.
  std::atomic<std::uint64_t> shrinkable{0};
  // With workers.jpeg = "nvjpeg", of JPEG files: decoded by nvJPEG, and left to libjpeg-turbo, bad ones included.
  std::atomic<std::uint64_t> nvjpeg_samples{0};
  std::atomic<std::uint64_t> nvjpeg_fallbacks{0};
};

}  // namespace forebay
