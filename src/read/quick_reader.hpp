#pragma once

#include "base/thread.hpp"
#include "base/wait.hpp"
#include "reader.hpp"
#include "reader_pool.hpp"
#include "requests.hpp"
#include "workload.hpp"

namespace forebay {

// Reads samples for the decoder thread that it belongs to, as long as reads are quick. It waits for nothing but the
// read: what would need a wait is asked of the readers instead.
class QuickReader {
 public:
  // All references must outlive it. REQUIRES: links.pace is not null, and there is no throttle.
  QuickReader(const ReaderLinks& links, WorkerStatus& status);

  // Puts the bytes of sample.request into the sample. False if a reader will do so later, or if the sample is bad and
  // was reported. The status has to say that this thread reads, and says afterwards that it decodes. Throws what ends
  // the run.
  [[nodiscard]] bool read(EncodedSample& sample);
  // Adds what was read since the last call to the totals.
  void count() noexcept { reader_.add_to_totals(); }

 private:
  ReaderLinks links_;
  StopSignal never_;
  Workload workload_{false};
  Reader reader_;
};

}  // namespace forebay
