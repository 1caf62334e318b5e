#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <forebay/tensor.hpp>

namespace forebay {

class SlotStore;

// The right to use one resident batch. Move-only; ends with its scope or with release(), on any thread. Keeps the
// memory alive even after the feeder was closed. The batch is read-only by contract: a reuse serves the same bytes.
//
// With images on a device, a lease is a matter of streams: work on it that is put on the stream given to next() finds
// the batch complete, and ending the lease says that all such work was put there, not that it is done. Neither waits.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  // [size, 3, H, W] or [size, H, W, 3]. With transform.when = "dequeue" a tensor made for this lease: there are as many
  // as queue.max_leases, and with one lease at a time it is always the same one.
  [[nodiscard]] TensorView images() const noexcept;
  // Class indices, one per sample; -1 = unlabelled.
  [[nodiscard]] std::span<const std::int64_t> labels() const noexcept;
  // Dataset ids of the samples in the batch (of the replacement where a bad sample was replaced).
  [[nodiscard]] std::span<const std::uint64_t> ids() const noexcept;
  // Samples in the batch: less than the batch size for a short last batch and, in evaluation, where bad samples were
  // left out; 0 for a rank that has none left in evaluation.
  [[nodiscard]] std::uint32_t size() const noexcept;

  // Epoch and number of the global batch.
  [[nodiscard]] std::uint64_t epoch() const noexcept;
  [[nodiscard]] std::uint64_t batch() const noexcept;
  // Steps this rank has made, from 0; a run that was resumed goes on counting.
  [[nodiscard]] std::uint64_t step() const noexcept { return serving_.step; }
  // 0 = fresh, then 1, 2, ...
  [[nodiscard]] std::uint64_t use_index() const noexcept { return serving_.use_index; }
  [[nodiscard]] bool is_fresh() const noexcept { return serving_.use_index == 0; }
  // Samples that the job, all ranks together, had served fresh `mpi.lag` steps before this one (with one rank: before
  // this one) since the run began: the same on all ranks at the same step, so that schedules of the learning rate may
  // follow it.
  [[nodiscard]] std::uint64_t job_fresh_samples() const noexcept { return serving_.job_fresh_samples; }

  // The images as they are once the stream given to next() has come so far. Waits for it: for logs and tests.
  // Throws Error when `out` is not of images().bytes(), and when the device fails.
  void copy_to_host(std::span<std::byte> out) const;

  // Keeps the memory that images() points into valid, for as long as it is held and whatever becomes of lease and
  // feeder; what is in it may change once the lease has ended. Null when it has.
  [[nodiscard]] std::shared_ptr<const void> memory() const noexcept;

  // The stream given to next().
  [[nodiscard]] StreamView stream() const noexcept { return serving_.stream; }

  // Ends the lease early, after what was put on the stream given to next(). Where the device fails, the next call of
  // next() throws it.
  void release() noexcept;
  // The same for a trainer that used the batch on another stream, which it has made wait for the first one.
  // cudaStreamPerThread is the calling thread's.
  void release(StreamView stream) noexcept;

 private:
  friend class LeaseMaker;

  // What belongs to the step and not to the batch.
  struct Serving {
    std::uint64_t step = 0;
    std::uint64_t use_index = 0;
    std::uint64_t job_fresh_samples = 0;
    StreamView stream = {};
    std::uint64_t served = 0;           // steps that this process made before
    std::uint32_t output = UINT32_MAX;  // SlotStore::kNoOutput
  };

  Lease(std::shared_ptr<SlotStore> store, std::uint32_t slot, const Serving& serving) noexcept;

  std::shared_ptr<SlotStore> store_;
  std::uint32_t slot_;
  Serving serving_;
};

}  // namespace forebay
