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

  // Reads those of the samples that nobody has read, all before the first is decoded: a thread that alternates loses
  // what its caches hold of either work. Those whose bytes are there then come first, in order, and it returns their
  // number. The others will be read by readers, or are bad and were reported. Throws what ends the run.
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
