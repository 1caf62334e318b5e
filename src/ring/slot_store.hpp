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
#include "host_copies.hpp"
#include "make/canvas.hpp"
#include "make/field_layout.hpp"
#include "other_streams.hpp"
#include "probes.hpp"
#include "queue_slots.hpp"
#include "run_ahead.hpp"
#include "stream_uses.hpp"

namespace forebay::ring {

// The shape of every batch, as the trainer gets it, and its layout in a slot.
struct SlotFormat {
  std::uint32_t batch_size = 1;
  std::uint32_t views = 1;   // of each sample
  std::uint32_t frames = 0;  // of each clip; 0: samples are images
  std::int64_t height = 0;
  std::int64_t width = 0;
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  std::int64_t channels = 3;
  std::optional<make::CanvasFormat> canvas = std::nullopt;  // transform.when = "dequeue": slots hold these instead
  const make::FieldLayout* fields = nullptr;  // null: none but image and label; a store keeps its own copy

  // Of every tensor of a full batch: row i * views + v is view v of sample i.
  [[nodiscard]] std::size_t rows() const noexcept { return static_cast<std::size_t>(batch_size) * views; }
  // Pictures of a full batch: each frame of a clip is one.
  [[nodiscard]] std::size_t pictures() const noexcept { return rows() * std::max(frames, 1U); }
  // That decoders write of a sample: a canvas has all of them in it.
  [[nodiscard]] std::uint32_t views_made() const noexcept { return canvas ? 1 : views; }
  // Of one view of a sample, as the trainer gets it.
  [[nodiscard]] std::size_t sample_bytes() const noexcept {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
           size_of(dtype) * std::max(frames, 1U);
  }
  [[nodiscard]] std::size_t tensor_bytes() const noexcept { return sample_bytes() * rows(); }
  // Of the images or canvases of a slot, which come first in it, and of all of the slot.
  [[nodiscard]] std::size_t image_bytes() const noexcept { return canvas ? canvas->batch_bytes() : tensor_bytes(); }
  [[nodiscard]] std::size_t resident_bytes() const noexcept { return fields ? fields->bytes : image_bytes(); }
  // On a device the labels follow, so that one copy brings all of a batch.
  [[nodiscard]] std::size_t labels_at() const noexcept {
    constexpr std::size_t kAlignment = make::FieldLayout::kAlignment;
    return (resident_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  [[nodiscard]] std::size_t device_bytes() const noexcept { return labels_at() + sizeof(std::int64_t) * rows(); }
  // Of the image of one row: the frames of a clip, then the extents of a picture in the order of the layout.
  [[nodiscard]] Shape image_shape() const;
  // Every field: image, label, then the others.
  [[nodiscard]] std::vector<Field> all_fields() const;
};

// How many of each a store has.
struct SlotCounts {
  std::uint32_t slots = 1;
  Capacity capacity = 1;          // batches that are filling or ready at one time
  std::uint32_t max_leases = 1;   // at one time
  std::uint32_t run_ahead = 2;    // steps that the trainer's thread may be ahead of a device
  std::uint64_t probes_seed = 0;  // where changes of batches are looked for
};

// Bytes of a store, for messages, and for checks before it is made.
struct SlotMemory {
  std::size_t slots = 0;     // on the device
  std::size_t at_first = 0;  // of them, before the capacity has grown; the host takes the others as they are used
  std::size_t outputs = 0;   // on the device
  std::size_t staging = 0;   // on the host
};

}  // namespace forebay::ring

namespace forebay {

// The memory of all slots and what is known of the batch in each. It is shared with the leases, so that batches
// outlive the feeder. The ring decides which thread may touch what (SlotRing's invariants), and Staging's invariants
// which streams of a device may.
class SlotStore {
 public:
  static constexpr std::uint32_t kNoOutput = UINT32_MAX;

  // What the consumer and the producers know of one slot, on its own cache lines.
  struct alignas(64) Slot {
    BatchRef batch;                                 // set by the issuer at the claim
    std::uint64_t turn = 0;                         // set by the issuer at the claim
    std::byte* filled = nullptr;                    // where the batch is assembled; set by the issuer at the claim
    std::uint64_t uses = 0;                         // times served; consumer only
    bool is_kept = false;                           // what it holds was noted, to see if it is changed
    std::uint32_t left_out = 0;                     // samples of the batch that are bad and not in it (evaluation)
    std::atomic<std::uint32_t> missing{0};          // samples not yet written; 0 = complete
    std::atomic<std::uint32_t> leases{0};           // leases held on it
    std::unique_ptr<ring::StreamUses> stream_uses;  // none on the host
  };

  SlotStore(std::shared_ptr<device::Device> device, const ring::SlotFormat& format, const ring::SlotCounts& counts);

  // Of one batch.
  [[nodiscard]] static std::size_t slot_bytes(const ring::SlotFormat& format, bool on_host) noexcept;
  // The memory that such a store takes. `on_host`: the device is the host.
  [[nodiscard]] static ring::SlotMemory memory_of(const ring::SlotFormat& format, const ring::SlotCounts& counts,
                                                  bool on_host) noexcept;

  [[nodiscard]] device::Device& device() noexcept { return *device_; }
  [[nodiscard]] const ring::SlotFormat& format() const noexcept { return format_; }
  // Of the images of a full batch.
  [[nodiscard]] const Shape& images_shape() const noexcept { return images_shape_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  [[nodiscard]] const ring::SlotMemory& memory() const noexcept { return memory_; }
  // Where the memory is and how it is mapped, for the line at start-up.
  [[nodiscard]] const std::string& describe() const noexcept { return description_; }
  // None on the host, where batches are assembled in their slots.
  [[nodiscard]] ring::Staging* staging() noexcept { return staging_ ? &*staging_ : nullptr; }

  [[nodiscard]] Slot& slot(std::uint32_t slot) noexcept { return slots_[slot]; }
  [[nodiscard]] const Slot& slot(std::uint32_t slot) const noexcept { return slots_[slot]; }
  // First byte of a slot, in memory of the device.
  [[nodiscard]] std::byte* images(std::uint32_t slot) noexcept { return base_ + slot * slot_bytes_; }
  [[nodiscard]] std::int64_t* labels(std::uint32_t slot) noexcept { return labels_.data() + slot * format_.rows(); }
  // What each row shows of its image, or, with canvases, what that of each sample holds of it.
  [[nodiscard]] SampleView* views(std::uint32_t slot) noexcept { return views_.data() + slot * format_.rows(); }
  [[nodiscard]] std::uint64_t* ids(std::uint32_t slot) noexcept {
    return ids_.data() + static_cast<std::size_t>(slot) * format_.batch_size;
  }

  // --- issuer thread ---
  // A claimed slot gets its batch and its place of assembly.
  void begin(std::uint32_t slot, std::uint64_t turn, const BatchRef& batch) noexcept;

  // --- decoder threads ---
  // The place of one row, or of a sample's canvas, in memory of the host. REQUIRES: row < batch_size * views_made(),
  // begun.
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
  // The label and the id of the sample at this place. REQUIRES: as for sample(), index < batch_size.
  void name(std::uint32_t slot, std::uint32_t index, std::int64_t label, std::uint64_t id) noexcept {
    std::fill_n(labels(slot) + static_cast<std::size_t>(index) * format_.views, format_.views, label);
    ids(slot)[index] = id;
  }

  // This thread has written, or left out, so many samples of the slot. Returns whether they were the last ones: then
  // all that others wrote there is known to it, and it publishes the batch (ring invariant R3).
  [[nodiscard]] bool count_down(std::uint32_t slot, std::uint32_t samples) noexcept {
    return slots_[slot].missing.fetch_sub(samples, std::memory_order_acq_rel) == samples;
  }

  // Evaluation: leaves out the sample at this place. REQUIRES: as for name(); no other thread writes it.
  void leave_out(std::uint32_t slot, std::uint32_t index) noexcept { ids(slot)[index] = kLeftOut; }
  // Closes the gaps where samples were left out; the batch becomes that much smaller. REQUIRES: every place of the slot
  // was written or left out, which the caller has acquired, and the slot is not published yet (R3); views == 1, as in
  // all evaluation.
  void close_gaps(std::uint32_t slot) noexcept;

  // Notes what the batch holds, so that a change of it is seen when it is served again. Only of host memory; where
  // slots hold canvases, of what is beside them. REQUIRES: as for close_gaps().
  void keep(std::uint32_t slot) noexcept;

  // --- the thread that copies to a device ---
  // A complete batch, before its copy: puts the labels beside it, and keeps what the host is to have of it.
  void complete_for_device(std::uint32_t slot) noexcept;
  // Canvases: has the device draw, behind their copy, which views the first serving shows. Throws Error.
  void draw(std::uint32_t slot, StreamView stream);

  // --- consumer thread ---
  // Nobody has written to the batch since, as far as this use looks. The whole of it is not looked at: see Probes.
  [[nodiscard]] bool is_unchanged(std::uint32_t slot) const noexcept {
    const Slot& batch = slots_[slot];
    return !batch.is_kept || (probes_.are_kept(slot, base_ + slot * slot_bytes_, batch.uses) &&
                              label_probes_.are_kept(slot, labels_of(slot), batch.uses));
  }
  // The field that was written to, and where: "byte 17 of its images". REQUIRES: !is_unchanged(slot).
  [[nodiscard]] std::string what_changed(std::uint32_t slot) const;
  // Call before a step, counted by this process: waits until the device is at most run_ahead steps behind; returns
  // whether it had to wait. Throws what went wrong on the device when leases ended.
  bool keep_pace(std::uint64_t step);
  // Renders a batch of canvases into a tensor for a lease; returns the tensor's number, or kNoOutput if slots hold
  // tensors. If the device refuses, `refused` says why, and the tensor keeps what it showed before. For leases beyond
  // `max_leases` it does so silently.
  [[nodiscard]] std::uint32_t render(std::uint32_t slot, std::uint64_t use_index, StreamView stream,
                                     std::exception_ptr& refused) noexcept;

  // The renderer of draw() and render(), and how it chooses views. Call before the first batch is complete. REQUIRES:
  // on a device it has a place for each slot.
  void set_renderer(std::unique_ptr<make::CanvasRenderer> renderer, const make::ViewRule& rule, std::uint64_t seed) {
    renderer_ = std::move(renderer);
    rule_ = rule;
    seed_ = seed;
  }

  // Leases held at this moment, over all slots. Acquire pairs with Lease::release(): a thread that sees a lease gone
  // here sees it gone from its slot too, so the leases counted on slots never exceed this number.
  [[nodiscard]] std::uint32_t held() const noexcept { return held_.load(std::memory_order_acquire); }

  // Frees the memory of all batches early, so that another store can have it. REQUIRES: no lease is held, the writing
  // threads have ended, and no batch will be asked for any more.
  void give_back_memory() noexcept;

 private:
  friend class Lease;

  [[nodiscard]] const std::int64_t* labels_of(std::uint32_t slot) const noexcept {
    return labels_.data() + slot * format_.rows();
  }

  static constexpr std::uint64_t kLeftOut = UINT64_MAX;  // no dataset has this id

  // What a row shows in this serving.
  [[nodiscard]] SampleView served_view(std::uint32_t slot, std::uint32_t row, std::uint64_t use_index) noexcept;
  [[nodiscard]] make::RenderBatch serving_of(std::uint32_t slot, std::uint64_t use_index) noexcept;
  // The first element that a lease shows.
  [[nodiscard]] std::byte* shown(std::uint32_t slot, std::uint32_t output) noexcept {
    return output == kNoOutput ? images(slot) : outputs_->at(output);
  }
  // A lease's use ends where the stream is now. Any thread. Errors are kept for keep_pace().
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
  std::optional<ring::HostCopies> host_copies_;      // none on the host and without fields
  std::unique_ptr<make::CanvasRenderer> renderer_;
  make::ViewRule rule_;  // with canvases
  std::uint64_t seed_ = 0;
  alignas(64) std::atomic<std::uint32_t> held_{0};
  std::atomic<bool> failed_{false};
  std::mutex first_failure_;
  std::exception_ptr failure_;  // written once, before failed_ is released
};

// Makes leases: the only way to do so outside this room.
class LeaseMaker {
 public:
  // A batch without samples (evaluation, on a rank that has none left).
  static constexpr std::uint32_t kEmpty = UINT32_MAX;

  using Serving = Lease::Serving;

  // Number of the first field beside image and label.
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
};

}  // namespace forebay
