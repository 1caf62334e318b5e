#pragma once

#include <cstddef>
#include <span>

#include "base/thread.hpp"
#include "base/wait.hpp"
#include "reader.hpp"
#include "reader_pool.hpp"
#include "requests.hpp"
#include "workload.hpp"

namespace forebay::read {

// Reads samples for the decoder thread that owns it, as long as reads are quick. It waits only for the reads
// themselves: whatever would need another wait is passed to the readers.
class QuickReader {
 public:
  // All references must outlive it. REQUIRES: links.pace is not null, and there is no throttle.
  QuickReader(const ReaderLinks& links, WorkerStatus& status);

  // Reads the samples that have not been read yet, all of them before the first is decoded: a
  // thread that alternated between reading and decoding would lose its caches' contents each time.
  // Afterwards the samples whose bytes are present come first, in order; returns their number. The
  // others will be read by readers, or are bad and have been reported. Throws what ends the run.
  [[nodiscard]] std::size_t read(std::span<EncodedSample> samples);

 private:
  [[nodiscard]] bool read_one(EncodedSample& sample);

  StopSignal never_;
  ReaderLinks links_;
  WorkerStatus& status_;
  Workload workload_{false};
  Reader reader_;
};

}  // namespace forebay::read
