#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <forebay/tensor.hpp>
#include <forebay/view.hpp>

namespace forebay {

class SlotStore;

// The right to use one resident batch. Move-only; ends with its scope or with release(), on any thread. Keeps the
// memory alive even after the feeder is closed. The batch is read-only by contract: a reuse serves the same bytes. A
// lease that has ended, or was moved from, has no samples and no images, and its fields throw Error.
//
// With images on a device, leases follow stream order: work queued on the stream given to next() finds the batch
// complete, and ending the lease means that all such work has been queued, not that it is done. Neither waits.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  // [rows, C, H, W] or [rows, H, W, C], for clips [rows, T, ...]; C is transform.channels. With when = "dequeue" the
  // tensor is rendered for this lease, in one of queue.max_leases buffers; with one lease at a time it is always the
  // same buffer.
  [[nodiscard]] TensorView images() const noexcept;
  // Class indices, one per row; -1 = unlabelled. Always in host memory, wherever the images are. With [mixup] or
  // [cutmix] they are the labels before mixing; field("label_weights") has the mixed ones.
  [[nodiscard]] std::span<const std::int64_t> labels() const noexcept;
  // A field by its number in Feeder::fields(): [rows, ...], on the device of the images. 0 is "image" and 1 is "label".
  // Throws Error if there is no such field.
  [[nodiscard]] TensorView field(std::size_t number) const;
  // The same by name, which costs a look-up.
  [[nodiscard]] TensorView field(std::string_view name) const;
  // For a field that is_ragged(): how many entries of each row are filled, as [rows] of int32 on the field's device.
  // Unused entries are 0, or -1 in the class field of boxes. Throws Error for any other field.
  [[nodiscard]] TensorView counts(std::size_t number) const;
  // field() in host memory, without accessing the device: for labels and fields of kind class, multilabel and numbers,
  // of which the host has copies, and for all fields if the images are on the host. Nothing for others. Throws Error if
  // there is no such field.
  [[nodiscard]] std::optional<TensorView> field_on_host(std::size_t number) const;
  // counts() in host memory, likewise.
  [[nodiscard]] std::span<const std::int32_t> counts_on_host(std::size_t number) const;
  // What each row shows of its sample's image, for targets that the program computes itself. Allocates.
  [[nodiscard]] std::vector<SampleView> views() const;
  // Dataset ids of the samples in the batch (for a replaced bad sample, that of its replacement).
  [[nodiscard]] std::span<const std::uint64_t> ids() const noexcept;
  // Samples in the batch: fewer than the batch size in a short last batch and, in evaluation, if bad samples were left
  // out; 0 in evaluation on a rank that has none left.
  [[nodiscard]] std::uint32_t size() const noexcept;
  // Rows of all tensors, labels() and views(): size() * transform.views. Row i * transform.views + v is view v of
  // sample i.
  [[nodiscard]] std::uint32_t rows() const noexcept;

  // The global batch: its epoch, and its number within the epoch.
  [[nodiscard]] std::uint64_t epoch() const noexcept;
  [[nodiscard]] std::uint64_t batch() const noexcept;
  // The number of this step, from 0; a resumed run continues the count.
  [[nodiscard]] std::uint64_t step() const noexcept { return serving_.step; }
  // 0 = fresh, then 1, 2, ...
  [[nodiscard]] std::uint64_t use_index() const noexcept { return serving_.use_index; }
  [[nodiscard]] bool is_fresh() const noexcept { return serving_.use_index == 0; }
  // Samples that all ranks together had served fresh since the run began, `mpi.lag` steps before this one (with one
  // rank: just before this one). Equal on all ranks at the same step, so a learning-rate schedule may follow it.
  [[nodiscard]] std::uint64_t job_fresh_samples() const noexcept { return serving_.job_fresh_samples; }

  // Copies the images to the host, ordered on the stream given to next(), and waits for the copy; for logs and tests.
  // Throws Error if out.size() is not images().bytes(), or if the device fails.
  void copy_to_host(std::span<std::byte> out) const;
  // The same for any of this lease's tensors.
  void copy_to_host(const TensorView& tensor, std::span<std::byte> out) const;

  // Holding the result keeps the memory behind images() valid, whatever happens to the lease and the feeder. Its
  // contents may change once the lease has ended. Null if the lease has already ended.
  [[nodiscard]] std::shared_ptr<const void> memory() const noexcept;

  // The stream given to next().
  [[nodiscard]] StreamView stream() const noexcept { return serving_.stream; }

  // Declares that another stream of the device uses the batch, too: work queued there from now on finds the batch
  // complete, and the lease ends only after all work queued there before its end. The host does not wait; the streams
  // wait for each other's events. The stream must exist until the lease has ended. One thread at a time. No effect for
  // batches on the host. Throws Error if the lease has ended, for cudaStreamPerThread, which is a different stream on
  // each thread, for the default stream while another GPU is current, and while one of the streams captures a graph.
  void use_on(StreamView stream);

  // Ends the lease early, after the work queued on the stream given to next() and on those given to use_on(). If the
  // device fails, the following next() throws.
  void release() noexcept;
  // The same for a trainer that used the batch on another stream, which it has made wait for the first one.
  // cudaStreamPerThread means that of the calling thread.
  void release(StreamView stream) noexcept;

 private:
  friend class LeaseMaker;

  // The state of the step rather than of the batch.
  struct Serving {
    std::uint64_t step = 0;
    std::uint64_t use_index = 0;
    std::uint64_t job_fresh_samples = 0;
    StreamView stream = {};
    std::uint64_t served = 0;           // steps that this process made before this one
    std::uint32_t output = UINT32_MAX;  // SlotStore::kNoOutput
  };

  Lease(std::shared_ptr<SlotStore> store, std::uint32_t slot, const Serving& serving) noexcept;
  void require_open(const char* call) const;
  [[nodiscard]] TensorView labels_on_host() const;
  // A tensor [rows] at byte offset `at` of the slot.
  [[nodiscard]] TensorView rows_at(std::size_t at) const noexcept;

  std::shared_ptr<SlotStore> store_;
  std::uint32_t slot_;
  Serving serving_;
};

}  // namespace forebay
