#include "landings.hpp"

namespace forebay {

Landings::Landings(Device& device, std::size_t bytes, std::uint32_t count)
    : bytes_(bytes), arena_(device.allocate(bytes * count)), base_(arena_->bytes().data()) {
  for (std::uint32_t i = 0; i < count; ++i) landings_.push_back(std::make_unique<Landing>(device));
}

std::uint32_t Landings::take() noexcept {
  // Acquire pairs with end(): the use's end is on its stream, and what the thread read of the tensor it has read.
  std::uint32_t free = 0;
  while (landings_[free]->taken.load(std::memory_order_acquire)) ++free;
  landings_[free]->taken.store(true, std::memory_order_relaxed);
  return free;
}

void Landings::end(std::uint32_t landing, StreamView stream) {
  struct Free {
    std::atomic<bool>& taken;
    ~Free() { taken.store(false, std::memory_order_release); }
  } const free{landings_[landing]->taken};
  landings_[landing]->uses.end(stream);
}

}  // namespace forebay
