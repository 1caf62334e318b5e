#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "stream_uses.hpp"

namespace forebay::ring {

// The tensors that batches of canvases are rendered into, one for each lease that may be held. A lease gets the lowest
// free one: a trainer that holds one lease at a time sees the same address for the whole run.
class OutputTensors {
 public:
  // Throws Error when there is no memory.
  OutputTensors(device::Device& device, std::size_t bytes, std::uint32_t count);

  struct Taken {
    std::uint32_t output = 0;
    bool is_shared = false;  // with a lease that already shows something
  };

  // A free one. If all are taken, which takes more leases than may be held, one of them is shared. Consumer thread.
  [[nodiscard]] Taken take() noexcept;
  // Work put on `stream` from now on happens after the earlier uses of one that was taken. Consumer thread. Throws
  // Error.
  void put_after_uses(std::uint32_t output, StreamView stream) { outputs_[output]->uses.put_after(stream); }
  // A use of one ends where the stream is now; after the last use it is free, even if this throws Error. Any thread.
  void end(std::uint32_t output, StreamView stream);

  [[nodiscard]] std::byte* at(std::uint32_t output) noexcept { return base_ + output * bytes_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_ * outputs_.size(); }

 private:
  struct OutputTensor {
    explicit OutputTensor(device::Device& device) : uses(device) {}

    StreamUses uses;
    std::atomic<std::uint32_t> uses_held{0};
  };

  std::size_t bytes_;
  std::unique_ptr<device::Arena> arena_;
  std::byte* base_;
  std::vector<std::unique_ptr<OutputTensor>> outputs_;
};

}  // namespace forebay::ring
