#include <forebay/lease.hpp>

#include <string>
#include <utility>

#include <forebay/error.hpp>

#include "slot_store.hpp"

namespace forebay {

Lease::Lease(std::shared_ptr<SlotStore> store, std::uint32_t slot, const Serving& serving) noexcept
    : store_(std::move(store)), slot_(slot), serving_(serving) {
  store_->held_.fetch_add(1, std::memory_order_relaxed);
  // Relaxed: only the consumer thread adds leases, and only it looks for zero.
  if (slot_ != LeaseMaker::kEmpty) store_->slots_[slot_].leases.fetch_add(1, std::memory_order_relaxed);
}

Lease::Lease(Lease&& other) noexcept = default;

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    store_ = std::move(other.store_);
    slot_ = other.slot_;
    serving_ = other.serving_;
  }
  return *this;
}

Lease::~Lease() { release(); }

void Lease::release() noexcept { release(serving_.stream); }

void Lease::release(StreamView stream) noexcept {
  if (!store_) return;
  if (slot_ != LeaseMaker::kEmpty) {
    store_->end_use(slot_, serving_.output, serving_.served, stream);
    // Release: what this thread read of the batch, and put on its stream, happens before a producer writes to the slot
    // again (R5, S3).
    store_->slots_[slot_].leases.fetch_sub(1, std::memory_order_release);
  }
  store_->held_.fetch_sub(1, std::memory_order_release);
  store_.reset();
}

void Lease::copy_to_host(std::span<std::byte> out) const {
  const TensorView from = images();
  if (out.size() != from.bytes()) {
    throw Error("Lease::copy_to_host(): the batch has " + std::to_string(from.bytes()) + " bytes, the destination " +
                std::to_string(out.size()));
  }
  store_->device().copy_out(out.data(), from.as<std::byte>(), out.size(), serving_.stream);
}

TensorView Lease::images() const noexcept {
  const SlotFormat& format = store_->format();
  const std::int64_t n = size();
  TensorView view;
  view.data = store_->shown(slot_ == LeaseMaker::kEmpty ? 0 : slot_, serving_.output);
  view.device = store_->device().kind();
  view.device_index = store_->device().index();
  view.dtype = format.dtype;
  view.layout = format.layout;
  view.shape = format.layout == Layout::nchw ? std::array<std::int64_t, 4>{n, 3, format.height, format.width}
                                             : std::array<std::int64_t, 4>{n, format.height, format.width, 3};
  return view;
}

std::shared_ptr<const void> Lease::memory() const noexcept { return store_; }

std::uint32_t Lease::size() const noexcept { return slot_ == LeaseMaker::kEmpty ? 0 : store_->slot(slot_).batch.size; }

std::span<const std::int64_t> Lease::labels() const noexcept {
  if (slot_ == LeaseMaker::kEmpty) return {};
  return {store_->labels(slot_), size()};
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
