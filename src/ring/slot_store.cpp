#include "slot_store.hpp"

namespace forebay {
namespace {

constexpr std::size_t kSlotAlignment = 4096;

std::size_t rounded_up(std::size_t bytes) { return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment; }

}  // namespace

SlotStore::SlotStore(Device& device, const SlotFormat& format, std::uint32_t slots)
    : format_(format),
      slot_bytes_(rounded_up(format.sample_bytes() * format.batch_size)),
      arena_(device.allocate(slot_bytes_ * slots)),
      base_(arena_->bytes().data()),
      slots_(slots),
      labels_(static_cast<std::size_t>(slots) * format.batch_size, -1),
      ids_(static_cast<std::size_t>(slots) * format.batch_size, 0) {}

std::size_t SlotStore::bytes_of(const SlotFormat& format, std::uint32_t slots) noexcept {
  return rounded_up(format.sample_bytes() * format.batch_size) * slots;
}

}  // namespace forebay
