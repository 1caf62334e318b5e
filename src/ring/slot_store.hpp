#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/lease.hpp>
#include <forebay/order.hpp>
#include <forebay/tensor.hpp>

#include "device/device.hpp"
#include "host_fields.hpp"
#include "make/canvas.hpp"
#include "make/field_layout.hpp"
#include "other_streams.hpp"
#include "probes.hpp"
#include "queue_slots.hpp"
#include "run_ahead.hpp"
#include "stream_uses.hpp"

namespace forebay::ring {

// The shape of every batch, as the trainer sees it, and its layout in a slot.
struct SlotFormat {
  std::uint32_t batch_size = 1;
  std::uint32_t views = 1;   // per sample
  std::uint32_t frames = 0;  // per clip; 0: samples are images
  std::int64_t height = 0;
  std::int64_t width = 0;
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  std::int64_t channels = 3;
  std::optional<make::CanvasFormat> canvas = std::nullopt;  // transform.when = "dequeue": slots hold canvases instead
  const make::FieldLayout* fields = nullptr;                // null: only image and label; a store keeps its own copy

  // Rows of every tensor of a full batch: row i * views + v is view v of sample i.
  [[nodiscard]] std::size_t rows() const noexcept { return static_cast<std::size_t>(batch_size) * views; }
  // Pictures in a full batch: each frame of a clip is one.
  [[nodiscard]] std::size_t pictures() const noexcept { return rows() * std::max(frames, 1U); }
  // How many views decoders write per sample: one canvas serves for all of them.
  [[nodiscard]] std::uint32_t views_made() const noexcept { return canvas ? 1 : views; }
  // Bytes of one view of a sample, as the trainer sees it.
  [[nodiscard]] std::size_t sample_bytes() const noexcept {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
           size_of(dtype) * std::max(frames, 1U);
  }
  [[nodiscard]] std::size_t tensor_bytes() const noexcept { return sample_bytes() * rows(); }
  // Bytes of the images or canvases, which come first in a slot, and of the whole slot.
  [[nodiscard]] std::size_t image_bytes() const noexcept { return canvas ? canvas->batch_bytes() : tensor_bytes(); }
  [[nodiscard]] std::size_t resident_bytes() const noexcept { return fields ? fields->bytes : image_bytes(); }
  // On a device the labels follow, so that one copy transfers a whole batch.
  [[nodiscard]] std::size_t labels_at() const noexcept {
    constexpr std::size_t kAlignment = make::FieldLayout::kAlignment;
    return (resident_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  [[nodiscard]] std::size_t device_bytes() const noexcept { return labels_at() + sizeof(std::int64_t) * rows(); }
  // The shape of one row's image: the frames of a clip, then the extents of a picture in the order of the layout.
  [[nodiscard]] Shape image_shape() const;
  // Every field: image, label, then the others.
  [[nodiscard]] std::vector<Field> all_fields() const;
};

// The numbers of things in a store.
struct SlotCounts {
  std::uint32_t slots = 1;
  Capacity capacity = 1;          // batches that are filling or ready at one time
  std::uint32_t max_leases = 1;   // at one time
  std::uint32_t run_ahead = 2;    // steps that the trainer's thread may be ahead of a device
  std::uint64_t probes_seed = 0;  // decides where batches are checked for changes
};

// The memory of a store in bytes, for messages and for checks before it is made.
struct SlotMemory {
  std::size_t slots = 0;     // on the device
  std::size_t at_first = 0;  // of these, until the capacity grows; the host allocates the others on first use
  std::size_t outputs = 0;   // on the device
  std::size_t staging = 0;   // on the host
};

}  // namespace forebay::ring

namespace forebay {

// The memory of all slots and the state of the batch in each. It is shared with the leases, so that batches outlive the
// feeder. SlotRing's invariants decide which thread may access what, and Staging's which streams of a device may.
class SlotStore {
 public:
  static constexpr std::uint32_t kNoOutput = UINT32_MAX;

  // The state of one slot, shared by the consumer and the producers, on its own cache lines.
  struct alignas(64) Slot {
    BatchRef batch;                                 // set by the issuer at the claim
    std::uint64_t turn = 0;                         // set by the issuer at the claim
    std::byte* filled = nullptr;                    // where the batch is assembled; set by the issuer at the claim
    std::uint64_t uses = 0;                         // times served; consumer only
    bool is_kept = false;                           // whether its words were kept, to detect changes
    std::uint32_t left_out = 0;                     // samples of the batch that are bad and not in it (evaluation)
    std::atomic<std::uint32_t> missing{0};          // samples not yet written; 0 = complete
    std::atomic<std::uint32_t> leases{0};           // leases held on it
    std::unique_ptr<ring::StreamUses> stream_uses;  // none on the host
  };

  SlotStore(std::shared_ptr<device::Device> device, const ring::SlotFormat& format, const ring::SlotCounts& counts);

  // Bytes of one batch.
  [[nodiscard]] static std::size_t slot_bytes(const ring::SlotFormat& format, bool on_host) noexcept;
  // The memory of such a store. `on_host`: the device is the host.
  [[nodiscard]] static ring::SlotMemory memory_of(const ring::SlotFormat& format, const ring::SlotCounts& counts,
                                                  bool on_host) noexcept;

  [[nodiscard]] device::Device& device() noexcept { return *device_; }
  [[nodiscard]] const ring::SlotFormat& format() const noexcept { return format_; }
  // The shape of the images of a full batch.
  [[nodiscard]] const Shape& images_shape() const noexcept { return images_shape_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  [[nodiscard]] const ring::SlotMemory& memory() const noexcept { return memory_; }
  // Where the memory is and how it is mapped, for the log line at start-up.
  [[nodiscard]] const std::string& describe() const noexcept { return description_; }
  // Null on the host, where batches are assembled in their slots.
  [[nodiscard]] ring::Staging* staging() noexcept { return staging_ ? &*staging_ : nullptr; }

  [[nodiscard]] Slot& slot(std::uint32_t slot) noexcept { return slots_[slot]; }
  [[nodiscard]] const Slot& slot(std::uint32_t slot) const noexcept { return slots_[slot]; }
  // First byte of a slot, in device memory.
  [[nodiscard]] std::byte* begin_of(std::uint32_t slot) const noexcept { return base_ + slot * slot_bytes_; }
  [[nodiscard]] std::int64_t* labels(std::uint32_t slot) noexcept { return labels_.data() + slot * format_.rows(); }
  // The part of its image that each row shows or, with canvases, that each sample's canvas holds.
  [[nodiscard]] SampleView* views(std::uint32_t slot) noexcept { return views_.data() + slot * format_.rows(); }
  [[nodiscard]] std::uint64_t* ids(std::uint32_t slot) noexcept {
    return ids_.data() + static_cast<std::size_t>(slot) * format_.batch_size;
  }

  // --- issuer thread ---
  // Assigns a claimed slot its batch and its place of assembly.
  void begin(std::uint32_t slot, std::uint64_t turn, const BatchRef& batch) noexcept;

  // --- decoder threads ---
  // The place of one row, or of a sample's canvas, in host memory. REQUIRES: row < batch_size * views_made(), begun.
  [[nodiscard]] make::SamplePlace sample(std::uint32_t slot, std::uint32_t row) noexcept {
    const std::span<std::byte> batch{slots_[slot].filled, format_.image_bytes()};
    SampleView& view = views(slot)[row];
    if (format_.canvas) {
      make::SamplePlace place = format_.canvas->place(batch, row);
      place.view = &view;
      return place;
    }
    return {batch.subspan(row * format_.sample_bytes(), format_.sample_bytes()), {}, &view};
  }
  // Sets the label and the id of the sample at this place. REQUIRES: as for sample(), and index < batch_size.
  void set_label_and_id(std::uint32_t slot, std::uint32_t index, std::int64_t label, std::uint64_t id) noexcept {
    std::fill_n(labels(slot) + static_cast<std::size_t>(index) * format_.views, format_.views, label);
    ids(slot)[index] = id;
  }

  // Reports that this thread has written, or left out, this many samples of the slot. Returns whether they were the
  // last ones: then the thread has acquired all that others wrote there, and publishes the batch (ring invariant R3).
  [[nodiscard]] bool count_down(std::uint32_t slot, std::uint32_t samples) noexcept {
    return slots_[slot].missing.fetch_sub(samples, std::memory_order_acq_rel) == samples;
  }

  // Evaluation: leaves out the sample at this place. REQUIRES: as for set_label_and_id(); no other thread writes it.
  void leave_out(std::uint32_t slot, std::uint32_t index) noexcept { ids(slot)[index] = kLeftOut; }
  // Closes the gaps of samples left out; the batch shrinks accordingly. REQUIRES: every place of the slot was written
  // or left out, which the caller has acquired, and the slot is not published yet (R3); views == 1, as in all
  // evaluation.
  void close_gaps(std::uint32_t slot) noexcept;

  // Keeps words of the batch, so that a change is detected when it is served again. Only for host memory; if slots hold
  // canvases, only for what is beside them. REQUIRES: as for close_gaps().
  void keep(std::uint32_t slot) noexcept;

  // --- the thread that copies to a device ---
  // Prepares a complete batch for its copy: puts the labels beside it, and makes the host's copies.
  void complete_for_device(std::uint32_t slot) noexcept;
  // With canvases: makes the device draw, after their copy, which views the first serving shows. Throws Error.
  void draw(std::uint32_t slot, StreamView stream);

  // --- consumer thread ---
  // Whether the batch is unchanged, as far as this use checks. It does not check all bytes: see Probes.
  [[nodiscard]] bool is_unchanged(std::uint32_t slot) const noexcept {
    const Slot& batch = slots_[slot];
    return !batch.is_kept || (probes_.are_unchanged(slot, begin_of(slot), batch.uses) &&
                              label_probes_.are_unchanged(slot, labels_of(slot), batch.uses));
  }
  // The field that was written to, and where: "byte 17 of its images". REQUIRES: !is_unchanged(slot).
  [[nodiscard]] std::string what_changed(std::uint32_t slot) const;
  // Called before a step, counted by this process: waits until the device is at most run_ahead steps behind; returns
  // whether it had to wait. Throws the error, if any, that the device reported when leases ended.
  bool keep_pace(std::uint64_t step);
  // Renders a batch of canvases into a tensor for a lease; returns the tensor's number, or kNoOutput if slots hold
  // tensors. If the device refuses, `refused` says why, and the tensor keeps its previous content. For leases beyond
  // `max_leases` that happens silently.
  [[nodiscard]] std::uint32_t render(std::uint32_t slot, std::uint64_t use_index, StreamView stream,
                                     std::exception_ptr& refused) noexcept;

  // Sets the renderer for draw() and render(), and how it chooses views. Call before the first batch is complete.
  // REQUIRES: on a device it has a place for each slot.
  void set_renderer(std::unique_ptr<make::CanvasRenderer> renderer, const make::ViewRule& rule, std::uint64_t seed) {
    renderer_ = std::move(renderer);
    rule_ = rule;
    seed_ = seed;
  }

  // Leases held at this moment, over all slots. Acquire pairs with Lease::release(): a thread that sees a lease gone
  // here also sees it gone from its slot, so the leases counted on slots never exceed this number.
  [[nodiscard]] std::uint32_t held() const noexcept { return held_.load(std::memory_order_acquire); }

  // Frees the memory of all batches early, so that another store can have it. REQUIRES: no lease is held, the writing
  // threads have ended, and no further batch will be requested.
  void give_back_memory() noexcept;

 private:
  friend class Lease;

  [[nodiscard]] const std::int64_t* labels_of(std::uint32_t slot) const noexcept {
    return labels_.data() + slot * format_.rows();
  }

  static constexpr std::uint64_t kLeftOut = UINT64_MAX;  // no dataset has this id

  // The view that a row shows in this serving.
  [[nodiscard]] SampleView served_view(std::uint32_t slot, std::uint32_t row, std::uint64_t use_index) noexcept;
  [[nodiscard]] make::RenderBatch render_batch(std::uint32_t slot, std::uint64_t use_index) noexcept;
  // The first element that a lease shows.
  [[nodiscard]] std::byte* shown(std::uint32_t slot, std::uint32_t output) noexcept {
    return output == kNoOutput ? begin_of(slot) : outputs_->at(output);
  }
  // Ends a lease's use at the stream's current position. Any thread. Errors are kept for keep_pace().
  void end_use(std::uint32_t slot, std::uint32_t output, std::uint64_t step, StreamView stream) noexcept;

  std::shared_ptr<device::Device> device_;
  ring::SlotFormat format_;
  Shape images_shape_;
  make::FieldLayout fields_;  // what format_.fields points to
  ring::SlotMemory memory_;
  std::string description_;
  std::size_t slot_bytes_;
  std::unique_ptr<device::Arena> arena_;
  std::byte* base_;
  std::vector<Slot> slots_;
  std::vector<std::int64_t> labels_;
  std::vector<std::uint64_t> ids_;
  std::vector<SampleView> views_;
  ring::Probes<256, 8> probes_;
  ring::Probes<16, 1> label_probes_;
  std::optional<ring::Staging> staging_;
  std::optional<ring::OutputTensors> outputs_;
  std::optional<ring::RunAhead> run_ahead_;          // none on the host
  std::optional<ring::OtherStreams> other_streams_;  // none on the host
  std::optional<ring::HostFields> host_fields_;      // none on the host and without fields
  std::unique_ptr<make::CanvasRenderer> renderer_;
  make::ViewRule rule_;  // with canvases
  std::uint64_t seed_ = 0;
  alignas(64) std::atomic<std::uint32_t> held_{0};
  std::atomic<bool> failed_{false};
  std::mutex first_failure_;
  std::exception_ptr failure_;  // written once, before failed_ is released
};

// Makes leases; nothing else outside this room can.
class LeaseMaker {
 public:
  // A batch without samples (evaluation, on a rank that has none left).
  static constexpr std::uint32_t kEmpty = UINT32_MAX;

  using Serving = Lease::Serving;

  // Number of the first field after image and label.
  static constexpr std::size_t kFirstField = 2;
  // Throws Error that lists the names.
  [[nodiscard]] static std::size_t number_of(const SlotStore& store, std::string_view name);
  // Throws Error. REQUIRES: number is not that of image or label.
  [[nodiscard]] static const make::FieldLayout::Entry& entry_of(const SlotStore& store, std::size_t number);

  // Consumer thread only.
  [[nodiscard]] static Lease make(const std::shared_ptr<SlotStore>& store, std::uint32_t slot,
                                  const Serving& serving) noexcept {
    return {store, slot, serving};
  }
  // For a feeder whose steps are not those of the one behind it.
  [[nodiscard]] static Serving& serving_of(Lease& lease) noexcept { return lease.serving_; }
};

}  // namespace forebay
