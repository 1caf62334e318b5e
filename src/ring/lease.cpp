// A lease is the trainer's hold on a served batch: it counts in its slot, and in the store's number
// of held leases. It is made by next() on the trainer's thread; it may be moved and released on any
// thread. Releasing ends the use on the device's stream first and then counts down, in that order:
// the consumer that finds the count at zero may hand the slot to writers at once (R5), and their
// copy waits for the event that the use left (S3).
//
// Everything else here is views: addresses and shapes of the slot's memory, which stay right
// because no slot is written while a lease counts in it. A lease without a slot (kEmpty) is an
// evaluation's padding; it has a size of 0, and addresses of slot 0 that nobody reads.

#include <forebay/lease.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <forebay/error.hpp>

#include "slot_store.hpp"

namespace forebay {

constexpr Shape kNoImages{0};

std::size_t LeaseMaker::number_of(const SlotStore& store, std::string_view name) {
  if (name == "image") return 0;
  if (name == "label") return 1;
  std::string known = R"("image", "label")";
  if (const make::FieldLayout* layout = store.format().fields) {
    for (std::size_t i = 0; i < layout->entries.size(); ++i) {
      if (layout->entries[i].field.name == name) return kFirstField + i;
      known += ", \"" + layout->entries[i].field.name + "\"";
    }
  }
  throw Error("a batch has no field \"" + std::string(name) + "\"; it has " + known);
}

const make::FieldLayout::Entry& LeaseMaker::entry_of(const SlotStore& store, std::size_t number) {
  const make::FieldLayout* const layout = store.format().fields;
  const std::size_t fields = kFirstField + (layout != nullptr ? layout->entries.size() : 0);
  if (number >= kFirstField && number < fields) return layout->entries[number - kFirstField];
  throw Error("a batch has no field " + std::to_string(number) + "; it has " + std::to_string(fields) +
              ", counted from 0 (Feeder::fields())");
}

Lease::Lease(std::shared_ptr<SlotStore> store, std::uint32_t slot, const Serving& serving) noexcept
    : store_(std::move(store)), slot_(slot), serving_(serving) {
  store_->held_.fetch_add(1, std::memory_order_relaxed);
  // Relaxed: only the consumer thread adds leases, and only it looks for zero.
  if (slot_ != LeaseMaker::kEmpty) store_->slots_[slot_].leases.fetch_add(1, std::memory_order_relaxed);
}

// What is moved from is an ended lease: its members that cannot throw look at the slot alone.
Lease::Lease(Lease&& other) noexcept
    : store_(std::move(other.store_)),
      slot_(std::exchange(other.slot_, LeaseMaker::kEmpty)),
      serving_(other.serving_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    store_ = std::move(other.store_);
    slot_ = std::exchange(other.slot_, LeaseMaker::kEmpty);
    serving_ = other.serving_;
  }
  return *this;
}

Lease::~Lease() { release(); }

// A batch is complete before it is published (S2), so a second stream need not wait for anything. A
// tensor that is rendered from canvases is made on the lease's own stream, so there the second one
// has to wait for that.
void Lease::use_on(StreamView stream) {
  require_open("use_on()");
  if (!store_->other_streams_ || stream.handle == serving_.stream.handle) return;
  store_->device().check_stream(stream);
  const bool is_rendered = serving_.output != SlotStore::kNoOutput;  // else it lies in a slot, complete (S2)
  store_->other_streams_->add(serving_.served, stream, is_rendered ? std::optional(serving_.stream) : std::nullopt);
}

void Lease::release() noexcept { release(serving_.stream); }

void Lease::release(StreamView stream) noexcept {
  if (!store_) return;
  if (slot_ != LeaseMaker::kEmpty) {
    store_->end_use(slot_, serving_.output, serving_.served, stream);
    // Release: this thread's reads of the batch, and the work that it queued on its stream, happen
    // before a producer writes to the slot again (R5, S3).
    store_->slots_[slot_].leases.fetch_sub(1, std::memory_order_release);
    slot_ = LeaseMaker::kEmpty;
  }
  store_->held_.fetch_sub(1, std::memory_order_release);
  store_.reset();
}

void Lease::copy_to_host(std::span<std::byte> out) const { copy_to_host(images(), out); }

void Lease::require_open(const char* call) const {
  if (!store_) throw Error("Lease::" + std::string(call) + ": the lease has ended; call it before release()");
}

void Lease::copy_to_host(const TensorView& tensor, std::span<std::byte> out) const {
  require_open("copy_to_host()");
  if (out.size() != tensor.bytes()) {
    throw Error("Lease::copy_to_host(): the batch has " + std::to_string(tensor.bytes()) + " bytes, the destination " +
                std::to_string(out.size()));
  }
  if (tensor.device == DeviceKind::host) {
    std::copy_n(tensor.as<std::byte>(), out.size(), out.begin());
  } else {
    store_->device().copy_out(out.data(), tensor.as<std::byte>(), out.size(), serving_.stream);
  }
}

// With canvases the images are the rendered tensor of this serving, otherwise the slot itself;
// shown() knows which.
TensorView Lease::images() const noexcept {
  if (!store_) return {.shape = kNoImages};
  const ring::SlotFormat& format = store_->format();
  TensorView view;
  view.data = store_->shown(slot_ == LeaseMaker::kEmpty ? 0 : slot_, serving_.output);
  view.device = store_->device().kind();
  view.device_index = store_->device().index();
  view.dtype = format.dtype;
  view.layout = format.layout;
  view.shape = store_->images_shape();
  view.shape[0] = rows();
  return view;
}

TensorView Lease::field(std::size_t number) const {
  require_open("field()");
  if (number == 0) return images();
  if (number == 1) {
    if (store_->device().is_host()) return labels_on_host();
    TensorView view = rows_at(store_->format().labels_at());
    view.dtype = DType::int64;
    return view;
  }
  const make::FieldLayout::Entry& entry = LeaseMaker::entry_of(*store_, number);
  TensorView view = rows_at(entry.at);
  view.dtype = entry.field.dtype;
  if (entry.field.kind == FieldKind::image) view.layout = store_->format().layout;
  for (const std::int64_t extent : entry.field.shape) view.shape.push_back(extent);
  return view;
}

TensorView Lease::field(std::string_view name) const {
  require_open("field()");
  return field(LeaseMaker::number_of(*store_, name));
}

// Makes no copy from the device: the host keeps labels and small fields (HostFields), but not
// images and masks.
std::optional<TensorView> Lease::field_on_host(std::size_t number) const {
  require_open("field_on_host()");
  if (number == 1) return labels_on_host();
  TensorView view = field(number);
  if (view.device == DeviceKind::host) return view;
  if (number == 0) return std::nullopt;
  view.data = store_->host_fields_->values(slot_ == LeaseMaker::kEmpty ? 0 : slot_, number - LeaseMaker::kFirstField);
  if (view.data == nullptr) return std::nullopt;
  view.device = DeviceKind::host;
  view.device_index = 0;
  return view;
}

std::span<const std::int32_t> Lease::counts_on_host(std::size_t number) const {
  TensorView view = counts(number);
  if (view.device != DeviceKind::host) {
    view.data = store_->host_fields_->counts(slot_ == LeaseMaker::kEmpty ? 0 : slot_, number - LeaseMaker::kFirstField);
  }
  return {view.as<std::int32_t>(), rows()};
}

TensorView Lease::counts(std::size_t number) const {
  require_open("counts()");
  const auto* const entry = number < 2 ? nullptr : &LeaseMaker::entry_of(*store_, number);
  if (entry == nullptr || !entry->counts_at) {
    throw Error("Lease::counts(): field " + std::to_string(number) +
                " has the same shape in every sample; boxes and bytes have counts");
  }
  TensorView view = rows_at(*entry->counts_at);
  view.dtype = DType::int32;
  return view;
}

TensorView Lease::labels_on_host() const {
  const auto all = labels();
  return {.data = all.data(), .shape = {static_cast<std::int64_t>(all.size())}, .dtype = DType::int64};
}

// Fields lie in the same block as the images, at the same offset in every slot
// (docs/decisions/0014-fields-in-one-block.md).
TensorView Lease::rows_at(std::size_t at) const noexcept {
  TensorView view;
  view.data = store_->begin_of(slot_ == LeaseMaker::kEmpty ? 0 : slot_) + at;
  view.shape = {static_cast<std::int64_t>(rows())};
  view.device = store_->device().kind();
  view.device_index = store_->device().index();
  return view;
}

std::vector<SampleView> Lease::views() const {
  std::vector<SampleView> views(rows());
  for (std::uint32_t i = 0; i < views.size(); ++i) views[i] = store_->served_view(slot_, i, serving_.use_index);
  return views;
}

std::shared_ptr<const void> Lease::memory() const noexcept { return store_; }

std::uint32_t Lease::size() const noexcept { return slot_ == LeaseMaker::kEmpty ? 0 : store_->slot(slot_).batch.size; }

std::uint32_t Lease::rows() const noexcept { return store_ ? size() * store_->format().views : 0; }

std::span<const std::int64_t> Lease::labels() const noexcept {
  if (slot_ == LeaseMaker::kEmpty) return {};
  return {store_->labels(slot_), rows()};
}

std::span<const std::uint64_t> Lease::ids() const noexcept {
  if (slot_ == LeaseMaker::kEmpty) return {};
  return {store_->ids(slot_), size()};
}

std::uint64_t Lease::epoch() const noexcept {
  return slot_ == LeaseMaker::kEmpty ? 0 : store_->slot(slot_).batch.epoch;
}

std::uint64_t Lease::batch() const noexcept {
  return slot_ == LeaseMaker::kEmpty ? 0 : store_->slot(slot_).batch.batch;
}

}  // namespace forebay
