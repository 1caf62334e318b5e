#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/worker_status.hpp"
#include "read/requests.hpp"

namespace forebay {

// The production side at one moment. Times and counts are from its start and may mix neighbouring moments.
struct Observation {
  std::chrono::steady_clock::time_point at;
  ActivityTimes issuer{};
  ActivityTimes readers{};   // summed over threads
  ActivityTimes decoders{};  // summed over threads
  std::chrono::nanoseconds decoder_cpu{0};
  std::chrono::nanoseconds reader_cpu{0};
  std::chrono::nanoseconds process_cpu{0};  // all threads, the trainer's included
  std::chrono::nanoseconds blocked{0};      // of the producer, by a full ring
  std::uint64_t reads = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t samples = 0;     // decoded
  std::uint64_t shrinkable = 0;  // of them: as WorkerTotals
  std::uint64_t published = 0;
  std::uint64_t planned = 0;
  // Not sums: as it is now.
  std::uint32_t depth = 0;
  std::size_t encoded = 0;
  std::size_t bytes_in_flight = 0;
  std::size_t most_bytes_in_flight = 0;  // since the start
};

}  // namespace forebay
