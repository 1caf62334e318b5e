#include "output_tensors.hpp"

namespace forebay::ring {

OutputTensors::OutputTensors(device::Device& device, std::size_t bytes, std::uint32_t count)
    : bytes_(bytes), arena_(device.allocate(bytes * count)), base_(arena_->bytes().data()) {
  for (std::uint32_t i = 0; i < count; ++i) outputs_.push_back(std::make_unique<OutputTensor>(device));
}

OutputTensors::Taken OutputTensors::take() noexcept {
  for (std::uint32_t i = 0; i < outputs_.size(); ++i) {
    // Acquire pairs with end(): the use's end is on its stream, and the thread's reads of the tensor are done.
    if (outputs_[i]->uses_held.load(std::memory_order_acquire) != 0) continue;
    outputs_[i]->uses_held.store(1, std::memory_order_relaxed);
    return {.output = i};
  }
  // Acquire for the same reason: its last use may have ended in the meantime.
  return {.output = 0, .is_shared = outputs_[0]->uses_held.fetch_add(1, std::memory_order_acquire) != 0};
}

void OutputTensors::end(std::uint32_t output, StreamView stream) {
  struct End {
    std::atomic<std::uint32_t>& uses_held;
    ~End() { uses_held.fetch_sub(1, std::memory_order_release); }
  } const at_the_end{outputs_[output]->uses_held};
  outputs_[output]->uses.end(stream);
}

}  // namespace forebay::ring
