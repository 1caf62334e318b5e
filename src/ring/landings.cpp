#include "landings.hpp"

namespace forebay {

Landings::Landings(Device& device, std::size_t bytes, std::uint32_t count)
    : bytes_(bytes), arena_(device.allocate(bytes * count)), base_(arena_->bytes().data()) {
  for (std::uint32_t i = 0; i < count; ++i) landings_.push_back(std::make_unique<Landing>(device));
}

Landings::Taken Landings::take() noexcept {
  for (std::uint32_t i = 0; i < landings_.size(); ++i) {
    // Acquire pairs with end(): the use's end is on its stream, and what the thread read of the tensor it has read.
    if (landings_[i]->uses_held.load(std::memory_order_acquire) != 0) continue;
    landings_[i]->uses_held.store(1, std::memory_order_relaxed);
    return {.landing = i};
  }
  // Acquire for the same reason: its last use may have ended meanwhile.
  return {.landing = 0, .is_shared = landings_[0]->uses_held.fetch_add(1, std::memory_order_acquire) != 0};
}

void Landings::end(std::uint32_t landing, StreamView stream) {
  struct End {
    std::atomic<std::uint32_t>& uses_held;
    ~End() { uses_held.fetch_sub(1, std::memory_order_release); }
  } const at_the_end{landings_[landing]->uses_held};
  landings_[landing]->uses.end(stream);
}

}  // namespace forebay
