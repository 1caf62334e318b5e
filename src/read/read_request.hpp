#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <vector>

namespace forebay {

// A sample to fetch for a place of a slot, or several that share their bytes. The slot was claimed before the request
// was made, so a sample that is read can always be decoded and nothing downstream waits for anything upstream.
struct ReadRequest {
  std::uint64_t order = 0;  // place in this rank's stream of samples; lower is needed sooner
  std::uint64_t turn = 0;   // place of the batch in this rank's stream of batches
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // within the epoch
  std::uint64_t sample = 0;    // dataset id, already replaced when attempt > 0
  std::uint32_t attempt = 0;   // bad samples met at this position so far
  std::uint32_t slot = 0;
  std::uint32_t index = 0;  // place in the slot
  // Samples with the same bytes that are wanted at once, at consecutive positions and places; `sample` is the first,
  // the others follow from the order. Above 1 only at the first attempt.
  std::uint32_t count = 1;
  // Not 0: a second read of a sample that another reader is slow with; the number of their race (Hedging).
  std::uint32_t hedge = 0;
};

// Encoded bytes of one sample on their way from a reader to a decoder.
struct EncodedSample {
  ReadRequest request;
  std::vector<std::byte> bytes;
};

// Where readers and decoders report samples that they cannot serve. Called on their threads; must not throw.
class BadSampleSink {
 public:
  virtual ~BadSampleSink() = default;
  // A permanent failure of this request's sample. The sink arranges for a replacement or ends the run.
  virtual void bad_sample(const ReadRequest& request, std::string_view reason) noexcept = 0;
  // A transient failure; the read is about to be retried. For the log.
  virtual void will_retry(const ReadRequest& /*request*/, std::string_view /*reason*/) noexcept {}
  // Anything else a worker could not handle; ends the run with this error.
  virtual void worker_failed(std::exception_ptr error) noexcept = 0;
};

}  // namespace forebay
