#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <forebay/tensor.hpp>

namespace forebay {

class SlotStore;

// The right to use one resident batch. Move-only; ends with its scope or with release(), on any thread. Keeps the
// memory alive even after the feeder was closed. The batch is read-only by contract: a reuse serves the same bytes.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  // [size, 3, H, W] or [size, H, W, 3].
  [[nodiscard]] TensorView images() const noexcept;
  // Class indices, one per sample; -1 = unlabelled.
  [[nodiscard]] std::span<const std::int64_t> labels() const noexcept;
  // Dataset ids of the samples in the batch (of the replacement where a bad sample was replaced).
  [[nodiscard]] std::span<const std::uint64_t> ids() const noexcept;
  // Samples in the batch: less than the batch size for a short last batch, 0 for a rank that has none left in
  // evaluation.
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

  // Ends the lease early. `stream`: where the last use was ordered.
  void release(StreamView stream = {}) noexcept;

 private:
  friend class LeaseMaker;

  // What belongs to the step and not to the batch.
  struct Serving {
    std::uint64_t step = 0;
    std::uint64_t use_index = 0;
    std::uint64_t job_fresh_samples = 0;
  };

  Lease(std::shared_ptr<SlotStore> store, std::uint32_t slot, const Serving& serving) noexcept;

  std::shared_ptr<SlotStore> store_;
  std::uint32_t slot_;
  Serving serving_;
};

}  // namespace forebay
