#pragma once

#include <forebay/detail/pipeline.hpp>
#include <forebay/detail/stages.hpp>
#include <span>
#include <thread>
#include <vector>

namespace forebay {

// What decoders work with; all of it must outlive the pool.
struct DecoderLinks {
  EncodedQueue& encoded;
  BufferReturn& buffers;
  SampleHandler& handler;
  BadSampleSink& sink;
  WorkerTotals& totals;
};

// The decoder threads: take encoded samples, have them handled and return their buffers. A SampleError of the handler
// goes to sink.bad_sample; anything else goes to sink.worker_failed and ends that thread.
class DecoderPool {
 public:
  // Starts the threads, at least one. Throws std::system_error when the system has no more of them.
  DecoderPool(const DecoderLinks& links, unsigned threads);
  ~DecoderPool() { stop(); }
  DecoderPool(const DecoderPool&) = delete;
  DecoderPool& operator=(const DecoderPool&) = delete;

  // Closes the queue of encoded samples, waits for samples that are being handled and joins the threads; what is
  // still queued is dropped. May be called again, by the same thread.
  void stop();

  // One per thread; any thread may read them while the pool exists.
  [[nodiscard]] std::span<const WorkerStatus> statuses() const noexcept { return statuses_; }

 private:
  void run(unsigned thread) noexcept;
  void decode(const EncodedSample& sample, unsigned thread);

  DecoderLinks links_;
  std::vector<WorkerStatus> statuses_;
  std::vector<std::jthread> threads_;
};

}  // namespace forebay
