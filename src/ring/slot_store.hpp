#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <forebay/detail/device.hpp>
#include <forebay/lease.hpp>
#include <forebay/order.hpp>
#include <forebay/tensor.hpp>

namespace forebay {

// Shape of every slot.
struct SlotFormat {
  std::uint32_t batch_size = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;

  [[nodiscard]] std::size_t sample_bytes() const noexcept {
    return 3 * static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * size_of(dtype);
  }
};

// The memory of all slots and what is known of the batch in each. It is shared with the leases, so that batches
// outlive the feeder. Who may touch what is decided by the ring (SlotRing's invariants), not here.
class SlotStore {
 public:
  // Consumer-side and producer-side facts of one slot, on cache lines of its own.
  struct alignas(64) Slot {
    BatchRef batch;                         // set by the issuer at the claim
    std::uint64_t turn = 0;                 // set by the issuer at the claim
    std::uint64_t uses = 0;                 // times served; consumer only
    std::atomic<std::uint32_t> missing{0};  // samples not yet written; 0 = complete
    std::atomic<std::uint32_t> leases{0};   // leases held on it
  };

  SlotStore(Device& device, const SlotFormat& format, std::uint32_t slots);

  // What bytes() of such a store would be.
  [[nodiscard]] static std::size_t bytes_of(const SlotFormat& format, std::uint32_t slots) noexcept;

  [[nodiscard]] const SlotFormat& format() const noexcept { return format_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
  [[nodiscard]] const Arena& arena() const noexcept { return *arena_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return slot_bytes_ * slots_.size(); }

  [[nodiscard]] Slot& slot(std::uint32_t slot) noexcept { return slots_[slot]; }
  [[nodiscard]] const Slot& slot(std::uint32_t slot) const noexcept { return slots_[slot]; }

  // The place of one sample. REQUIRES: index < batch_size.
  [[nodiscard]] std::span<std::byte> sample(std::uint32_t slot, std::uint32_t index) noexcept {
    return {images(slot) + index * format_.sample_bytes(), format_.sample_bytes()};
  }
  [[nodiscard]] std::byte* images(std::uint32_t slot) noexcept { return base_ + slot * slot_bytes_; }
  [[nodiscard]] std::int64_t* labels(std::uint32_t slot) noexcept {
    return labels_.data() + static_cast<std::size_t>(slot) * format_.batch_size;
  }
  [[nodiscard]] std::uint64_t* ids(std::uint32_t slot) noexcept {
    return ids_.data() + static_cast<std::size_t>(slot) * format_.batch_size;
  }

  // Leases held at this moment, over all slots. Acquire pairs with Lease::release(): whoever sees a lease gone here
  // sees it gone from its slot too, so leases that are counted on slots never outnumber this.
  [[nodiscard]] std::uint32_t held() const noexcept { return held_.load(std::memory_order_acquire); }

 private:
  friend class Lease;

  SlotFormat format_;
  std::size_t slot_bytes_;
  std::unique_ptr<Arena> arena_;
  std::byte* base_;
  std::vector<Slot> slots_;
  std::vector<std::int64_t> labels_;
  std::vector<std::uint64_t> ids_;
  alignas(64) std::atomic<std::uint32_t> held_{0};
};

// Makes leases; the composition root's only way to do so.
class LeaseMaker {
 public:
  // Stands for a batch without samples (evaluation, on a rank that has none left).
  static constexpr std::uint32_t kEmpty = UINT32_MAX;

  using Serving = Lease::Serving;

  // Consumer thread only.
  [[nodiscard]] static Lease make(const std::shared_ptr<SlotStore>& store, std::uint32_t slot,
                                  const Serving& serving) noexcept {
    return {store, slot, serving};
  }
};

}  // namespace forebay
