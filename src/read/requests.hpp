#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

// The interfaces between the reader threads and the decoder threads.
namespace forebay::read {

// A sample to fetch for a place of a slot, or several that share their bytes. Unless `coalesced` is set, the slot was
// claimed before the request was made, so a sample that is read can always be decoded and nothing downstream waits for
// anything upstream.
struct ReadRequest {
  std::uint64_t order = 0;  // place in this rank's stream of samples; lower is needed sooner
  std::uint64_t turn = 0;   // place of the batch in this rank's stream of batches
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // within the epoch
  std::uint64_t sample = 0;    // dataset id, already replaced when attempt > 0
  std::uint32_t attempt = 0;   // bad samples met at this position so far
  std::uint32_t slot = 0;
  std::uint32_t index = 0;  // place in the slot
  // The number of samples with the same bytes that are needed together, at consecutive positions and places; `sample`
  // is the first, the others follow from the order. Above 1 only at the first attempt.
  std::uint32_t count = 1;
  // Not 0: a second read of a sample that another reader is slow with; the number of their HedgedRead (Hedging).
  std::uint32_t hedge = 0;
  // Not 0: the request is for all samples of this coalesced read; this one is needed first (CoalescedReads).
  std::uint32_t coalesced = 0;
  // Reads of this sample that have failed, with errors that may pass.
  std::uint32_t failed = 0;
};

// Encoded bytes of one sample on their way to a decoder: those of its image and, if it has fields, a
// table of where each field ends, as 64-bit offsets from the buffer's first byte, then the fields.
struct EncodedSample {
  ReadRequest request;
  std::vector<std::byte> bytes;
  std::size_t image_bytes = SIZE_MAX;  // upper bound of the image's bytes; all if there are no fields
  bool is_read = true;  // false: there are no bytes yet, the decoder that takes it reads them (QuickReader)

  [[nodiscard]] std::span<const std::byte> image() const noexcept {
    return std::span(bytes).first(bytes.size() < image_bytes ? bytes.size() : image_bytes);
  }
  // REQUIRES: it has `fields` of them, and field is less.
  [[nodiscard]] std::span<const std::byte> field(std::size_t field, std::size_t fields) const noexcept {
    const auto end_of = [this](std::size_t i) {
      std::uint64_t end = 0;
      std::memcpy(&end, bytes.data() + image_bytes + i * sizeof end, sizeof end);
      return end;
    };
    const std::size_t begin = field == 0 ? image_bytes + fields * sizeof(std::uint64_t) : end_of(field - 1);
    return std::span(bytes).subspan(begin, end_of(field) - begin);
  }
};

// Where workers report samples that cannot be served, retries, and their own failures. Called on their threads; must
// not throw.
class WorkerErrors {
 public:
  virtual ~WorkerErrors() = default;
  // A permanent failure of this request's sample. It arranges for a replacement or ends the run.
  virtual void bad_sample(const ReadRequest& request, std::string_view reason) noexcept = 0;
  // A transient failure; the read is about to be retried. For the log.
  virtual void will_retry(const ReadRequest& /*request*/, std::string_view /*reason*/) noexcept {}
  // Anything else a worker could not handle; ends the run with this error.
  virtual void worker_failed(std::exception_ptr error) noexcept = 0;
};

// Where the bytes of a sample go once they are decoded.
class BufferReturn {
 public:
  virtual ~BufferReturn() = default;
  // Gives the buffer back for reuse, and buffer.size() bytes to the budget: the size must be as received. Any thread.
  virtual void give_back(std::vector<std::byte> buffer) noexcept = 0;
  // The same for the bytes of several samples, which cost less together.
  virtual void give_back(std::span<EncodedSample> samples) noexcept = 0;
};

// What decoder threads do with a sample: decode it and put it into its place.
class SampleHandler {
 public:
  virtual ~SampleHandler() = default;
  // For work on several samples at once; called only if DecoderLinks::at_once asks for it. `samples` are all that a
  // thread took from the queue; it then calls handle() for each, in this order, and they stay in place until then. Any
  // exception ends the run.
  virtual void prepare(std::span<const EncodedSample> /*samples*/, unsigned /*thread*/) {}
  // Threads call this concurrently; `thread` is the number of the calling one, from 0, to select its scratch memory.
  // Must not wait for other samples. Returns how many of the requested samples were put into their places. Throws
  // SampleError if none of them can be served; any other exception ends the run.
  virtual std::uint32_t handle(const EncodedSample& sample, unsigned thread) = 0;
  // Called after the last of the samples that a thread took from the queue at once, before it waits
  // for more. Completes whatever handle() has deferred for them. Any exception ends the run.
  virtual void finish_taken(unsigned /*thread*/) {}
};

// Totals that worker threads keep for telemetry: relaxed counters, exact once the threads are joined.
struct WorkerTotals {  // NOLINT(clang-analyzer-optin.performance.Padding): readers and decoders write apart
  std::atomic<std::uint64_t> bytes_read{0};
  // Bytes of samples: from a store (or, through a cache, from a slow mount), and from the cache. Not what failed
  // requests brought, nor the head that opening an object brings.
  std::atomic<std::uint64_t> bytes_from_store{0};
  std::atomic<std::uint64_t> bytes_from_cache{0};
  std::atomic<std::uint64_t> cache_room{0};  // what these samples take in the cache, whether kept or not
  std::atomic<std::uint64_t> read_ns{0};     // in the store, with emulated delays, without waits for the budget
  std::atomic<std::uint64_t> reads{0};       // that delivered their sample
  std::atomic<std::uint64_t> retries{0};     // of a read after a transient error
  // Second reads of slow samples, not among `reads`; and those of them that were quicker.
  std::atomic<std::uint64_t> hedged_reads{0};
  std::atomic<std::uint64_t> hedges_won{0};
  alignas(64) std::atomic<std::uint64_t> decode_ns{0};  // from here on counted by decoders, above by threads that read
  std::atomic<std::uint64_t> samples{0};
  // Samples decoded at full size and alone that transform.decode = "scaled" would have decoded smaller.
  std::atomic<std::uint64_t> shrinkable{0};
  // Samples whose JPEG file Forebay decoded without libjpeg-turbo.
  std::atomic<std::uint64_t> own_jpeg{0};
  // Of these, those for which the decode index knew where to begin.
  std::atomic<std::uint64_t> indexed_jpeg{0};
  // With workers.jpeg = "nvjpeg": JPEG files decoded by nvJPEG, and those left to the CPU, bad ones included.
  std::atomic<std::uint64_t> nvjpeg_samples{0};
  std::atomic<std::uint64_t> nvjpeg_fallbacks{0};
};

// The error for a sample that is bad because of a field. Names the field, and its file if it has one. Any thread.
[[nodiscard]] inline SampleError field_error(const Dataset& dataset, std::uint64_t id, std::size_t field,
                                             const SampleError& error) {
  const std::string file = dataset.field_name(id, field);
  return SampleError(
      "field \"" + dataset.fields()[field].name + "\"" + (file.empty() ? "" : " (" + file + ")") + ": " + error.what(),
      error.is_transient() ? SampleError::Kind::transient : SampleError::Kind::permanent);
}

}  // namespace forebay::read
