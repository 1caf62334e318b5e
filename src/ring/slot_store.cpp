// The memory of all batches and what belongs to each: labels, ids, views, counts, probes. A slot's
// life here: begin() by the issuer when the ring has claimed it, samples written by decoders into
// sample(), count_down() by each and close_gaps() or keep() by the last, served by the trainer's
// thread through leases, end_use() by whatever thread ends the lease. The ring decides who may do
// what when (ring invariants R3 and R5), so nothing here locks except the first failure of a
// device.
//
// On a device the bytes are written to a staging place first (S1), and the store owns what the
// streams need: events of uses, the throttle of steps ahead, the tensors that canvases are rendered
// into.

#include "slot_store.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace forebay::ring {
namespace {

// A page, so that direct transfers and locked memory cover whole slots, and neighbouring slots
// share no page.
constexpr std::size_t kSlotAlignment = 4096;

std::size_t rounded_up(std::size_t bytes) { return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment; }

// For evaluation, in which a bad sample leaves a gap: the samples after it move up, with all their
// fields.
void move_fields(const make::FieldLayout& layout, std::byte* slot, std::uint32_t from, std::uint32_t to) {
  for (const make::FieldLayout::Entry& entry : layout.entries) {
    std::ranges::copy(make::FieldLayout::values(entry, slot, from), make::FieldLayout::values(entry, slot, to).begin());
    if (entry.counts_at) make::FieldLayout::count(entry, slot, to) = make::FieldLayout::count(entry, slot, from);
  }
}

// The parts of a slot's memory that programs can see.
std::vector<ProbedRange> ranges_of(const SlotFormat& format) {
  std::vector<ProbedRange> ranges;
  if (!format.canvas && format.tensor_bytes() >= sizeof(std::uint64_t)) ranges.push_back({0, format.tensor_bytes()});
  if (format.fields == nullptr) return ranges;
  for (const make::FieldLayout::Entry& entry : format.fields->entries) {
    // The least field is followed by bytes that are nobody's (FieldLayout::kAlignment).
    const std::size_t bytes = std::max(entry.sample_bytes * format.rows(), sizeof(std::uint64_t));
    ranges.push_back({entry.at, entry.at + bytes});
  }
  return ranges;
}

}  // namespace

Shape SlotFormat::image_shape() const {
  Shape shape;
  if (frames > 0) shape.push_back(frames);
  for (const std::int64_t extent :
       layout == Layout::nchw ? Shape{channels, height, width} : Shape{height, width, channels})
    shape.push_back(extent);
  return shape;
}

std::vector<Field> SlotFormat::all_fields() const {
  std::vector<Field> all{{.name = "image", .kind = FieldKind::image, .dtype = dtype, .shape = image_shape()},
                         {.name = "label", .kind = FieldKind::class_number, .dtype = DType::int64}};
  if (fields != nullptr) {
    for (const make::FieldLayout::Entry& entry : fields->entries) all.push_back(entry.field);
  }
  return all;
}

}  // namespace forebay::ring

namespace forebay {

// On a device labels are also in the slot, after the images; on the host they are in a separate
// table.
std::size_t SlotStore::slot_bytes(const ring::SlotFormat& format, bool on_host) noexcept {
  return ring::rounded_up(on_host ? format.resident_bytes() : format.device_bytes());
}

ring::SlotMemory SlotStore::memory_of(const ring::SlotFormat& format, const ring::SlotCounts& counts,
                                      bool on_host) noexcept {
  const std::size_t slot = slot_bytes(format, on_host);
  const std::uint32_t to_come = on_host ? counts.capacity.most - counts.capacity.first : 0;
  return {.slots = slot * counts.slots,
          .at_first = slot * (counts.slots - to_come),
          .outputs = format.canvas ? ring::rounded_up(format.tensor_bytes()) * counts.max_leases : 0,
          .staging = on_host ? 0 : slot * counts.capacity.most};
}

// Memory that grows: the host's arena reserves addresses for the largest queue and takes memory for
// the first one (Device::allocate_growing). A device, its staging memory included, takes everything
// at once.
SlotStore::SlotStore(std::shared_ptr<device::Device> device, const ring::SlotFormat& format,
                     const ring::SlotCounts& counts)
    : device_(std::move(device)),
      format_(format),
      images_shape_{static_cast<std::int64_t>(format.rows())},
      memory_(memory_of(format, counts, device_->is_host())),
      slot_bytes_(slot_bytes(format, device_->is_host())),
      arena_(device_->allocate_growing(memory_.slots, memory_.at_first)),
      base_(arena_->bytes().data()),
      slots_(counts.slots),
      labels_(counts.slots * format.rows(), -1),
      ids_(static_cast<std::size_t>(counts.slots) * format.batch_size, 0),
      views_(counts.slots * format.rows()),
      probes_(ring::ranges_of(format), counts.slots, counts.probes_seed),
      label_probes_(std::array{ring::ProbedRange{0, format.rows() * sizeof(std::int64_t)}}, counts.slots,
                    counts.probes_seed + 1) {
  for (const std::int64_t extent : format.image_shape()) images_shape_.push_back(extent);
  description_ = arena_->describe();
  if (format.fields != nullptr) {
    fields_ = *format.fields;
    format_.fields = &fields_;
  }
  if (format.canvas) outputs_.emplace(*device_, ring::rounded_up(format.tensor_bytes()), counts.max_leases);
  if (device_->is_host()) return;
  staging_.emplace(*device_, slot_bytes_, counts.capacity.most);
  description_ += ", staged in " + std::string(staging_->arena().describe());
  run_ahead_.emplace(*device_, counts.run_ahead, counts.max_leases);
  other_streams_.emplace(*device_);
  if (format.fields != nullptr) host_fields_.emplace(fields_, format.rows(), counts.slots);
  for (Slot& slot : slots_) slot.stream_uses = std::make_unique<ring::StreamUses>(*device_);
}

void SlotStore::begin(std::uint32_t slot_number, std::uint64_t turn, const BatchRef& batch) noexcept {
  Slot& slot = slots_[slot_number];
  slot.batch = batch;
  slot.turn = turn;
  slot.filled = staging_ ? staging_->place(turn) : begin_of(slot_number);
  slot.uses = 0;
  slot.left_out = 0;
  slot.is_kept = false;
  // Relaxed: the decoders get the slot through queues, which order this before their use.
  slot.missing.store(batch.size, std::memory_order_relaxed);
}

// Called by the thread that completed the slot, before it is published, so nobody else sees samples
// move.
void SlotStore::close_gaps(std::uint32_t slot_number) noexcept {
  Slot& slot = slots_[slot_number];
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < slot.batch.size; ++i) {
    if (ids(slot_number)[i] == kLeftOut) continue;
    if (kept != i) {
      const make::SamplePlace from = sample(slot_number, i);
      const make::SamplePlace to = sample(slot_number, kept);
      std::copy(from.pixels.begin(), from.pixels.end(), to.pixels.begin());
      std::copy(from.info.begin(), from.info.end(), to.info.begin());
      labels(slot_number)[kept] = labels(slot_number)[i];
      ids(slot_number)[kept] = ids(slot_number)[i];
      views(slot_number)[kept] = views(slot_number)[i];
      if (format_.fields != nullptr) ring::move_fields(*format_.fields, slot.filled, i, kept);
    }
    ++kept;
  }
  slot.left_out = slot.batch.size - kept;
  slot.batch.size = kept;
}

// No words of a batch on a device are kept, because reading it back would cost more than the check
// is worth.
void SlotStore::keep(std::uint32_t slot_number) noexcept {
  if (!device_->is_host()) return;
  probes_.keep(slot_number, begin_of(slot_number));
  label_probes_.keep(slot_number, labels(slot_number));
  slots_[slot_number].is_kept = true;
}

// Labels are kept on the host and copied with the images, so that one copy transfers a whole batch.
void SlotStore::complete_for_device(std::uint32_t slot_number) noexcept {
  std::byte* const filled = slots_[slot_number].filled;
  std::memcpy(filled + format_.labels_at(), labels(slot_number), sizeof(std::int64_t) * format_.rows());
  if (host_fields_) host_fields_->keep(slot_number, filled);
}

// Fields lie in ascending order; the last one that begins before the byte contains it.
std::string SlotStore::what_changed(std::uint32_t slot_number) const {
  const std::size_t at = probes_.changed_at(slot_number, begin_of(slot_number));
  if (at == SIZE_MAX) return "its labels";
  std::string name = "its images";
  std::size_t begin = 0;
  if (format_.fields != nullptr) {
    for (const make::FieldLayout::Entry& entry : format_.fields->entries) {
      if (entry.at > at) break;
      name = "its field \"" + entry.field.name + "\"";
      begin = entry.at;
    }
  }
  return "byte " + std::to_string(at - begin) + " of " + name;
}

// With canvases a serving shows another crop each time. It is drawn again here, from the same
// numbers as the renderer draws it, rather than kept for every lease.
SampleView SlotStore::served_view(std::uint32_t slot_number, std::uint32_t row, std::uint64_t use_index) noexcept {
  if (!format_.canvas) return views(slot_number)[row];
  SampleView view = views(slot_number)[row / format_.views];
  const BatchRef& batch = slots_[slot_number].batch;
  const Box held = view.region;
  const make::ImageView shown = make::serving_view(rule_, seed_, {0, 0, held.width(), held.height()}, batch.epoch,
                                                   batch.batch * format_.rows() + row, use_index);
  view.region = {held.left + shown.region.left, held.top + shown.region.top, held.left + shown.region.right,
                 held.top + shown.region.bottom};
  view.mirror = shown.mirror;
  return view;
}

make::RenderBatch SlotStore::render_batch(std::uint32_t slot_number, std::uint64_t use_index) noexcept {
  const BatchRef& batch = slots_[slot_number].batch;
  return {.canvases = begin_of(slot_number),
          .size = batch.size * format_.views,
          .epoch = batch.epoch,
          .first_position = batch.batch * format_.rows(),
          .use_index = use_index};
}

// Called by the thread that copies, before the batch is published: nobody renders the slot's batch
// yet, and renderings of the previous one have been waited for (Staging's invariant S3).
void SlotStore::draw(std::uint32_t slot_number, StreamView stream) {
  if (renderer_) renderer_->draw(render_batch(slot_number, 0), slot_number, stream);
}

bool SlotStore::keep_pace(std::uint64_t step) {
  // Acquire: failure_ was written before failed_.
  if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(failure_);
  return run_ahead_ && run_ahead_->wait(step);
}

// Renders and ends the canvases' use at once: from then on only the output tensor is read. An error
// is not thrown but handed on, because other ranks are about to make the same step and this one has
// to make it too.
std::uint32_t SlotStore::render(std::uint32_t slot_number, std::uint64_t use_index, StreamView stream,
                                std::exception_ptr& refused) noexcept {
  if (!outputs_) return kNoOutput;
  const auto [output, is_shared] = outputs_->take();
  if (is_shared) return output;  // it is being read
  try {
    outputs_->put_after_uses(output, stream);
    make::RenderBatch serving = render_batch(slot_number, use_index);
    if (use_index == 0 && !device_->is_host()) serving.drawn_in = slot_number;
    renderer_->render(serving, outputs_->at(output), stream);
    if (slots_[slot_number].stream_uses) slots_[slot_number].stream_uses->end(stream);
  } catch (...) {
    refused = std::current_exception();
  }
  return output;
}

// On whatever thread ends the lease, which must not throw: the first failure is kept, and the
// trainer's thread throws it in keep_pace().
void SlotStore::end_use(std::uint32_t slot, std::uint32_t output, std::uint64_t step, StreamView stream) noexcept {
  try {
    if (other_streams_) other_streams_->end(step, stream);
    if (output != kNoOutput) outputs_->end(output, stream);
    // With canvases, too: render() has ended the image's use, and labels and fields are in the slot.
    if (slots_[slot].stream_uses) slots_[slot].stream_uses->end(stream);
    if (run_ahead_) run_ahead_->end(step, stream);
  } catch (...) {
    const std::lock_guard lock(first_failure_);
    if (failure_) return;
    failure_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
}

void SlotStore::give_back_memory() noexcept {
  renderer_.reset();
  outputs_.reset();
  staging_.reset();
  arena_.reset();
}

}  // namespace forebay
