#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/thread.hpp"
#include "read/queues.hpp"
#include "read/quick_reader.hpp"
#include "read/reader_pool.hpp"
#include "read/requests.hpp"

namespace forebay::make {

// The objects that decoders use; all must outlive the pool.
struct DecoderLinks {
  read::EncodedQueue& encoded;
  read::BufferReturn& buffers;
  read::SampleHandler& handler;
  read::WorkerErrors& sink;
  read::WorkerTotals& totals;
  std::size_t at_once = 0;  // most samples taken and prepared together; 0: by pace, unprepared
  // How decoders read samples that no reader has read; none: all samples arrive read. REQUIRES:
  // none, or at_once == 0.
  std::optional<read::ReaderLinks> reads{};
};

// The decoder threads. They take encoded samples, read those that are not read yet, pass them to
// the handler and return their buffers. A SampleError of the handler goes to sink.bad_sample();
// anything else goes to sink.worker_failed() and ends the thread.
class DecoderPool {
 public:
  // Starts `threads` threads, at least one; workers().want() may later ask for up to `most` (0 =
  // `threads`). Throws Error if the system allows no more threads.
  DecoderPool(DecoderLinks links, unsigned threads, unsigned most = 0);
  ~DecoderPool() { stop(); }
  DecoderPool(const DecoderPool&) = delete;
  DecoderPool& operator=(const DecoderPool&) = delete;

  // Closes the queue of encoded samples, waits for samples that are being handled and joins the
  // threads; what is still queued is dropped. The same thread may call it again.
  void stop() { workers_.stop(); }

  [[nodiscard]] WorkerPool& workers() noexcept { return workers_; }
  [[nodiscard]] const WorkerPool& workers() const noexcept { return workers_; }

 private:
  void run(unsigned thread, WorkerStatus& status) noexcept;

  DecoderLinks links_;
  WorkerPool workers_;
};

}  // namespace forebay::make
