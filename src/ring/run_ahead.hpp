#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "device/device.hpp"

namespace forebay::ring {

// Keeps the trainer's thread at most `steps` steps ahead of the device. A thread that only queues work on streams would
// request batches long before the device needs them, find the queue empty, and reuse although a fresh batch would have
// come in time.
class RunAhead {
 public:
  // `steps`: at least 1. Throws Error.
  RunAhead(device::Device& device, std::uint32_t steps, std::uint32_t max_leases);

  // Ends the lease of a step (from 0, counted by this process) at the stream's current position. Any thread. Throws
  // Error.
  void end(std::uint64_t step, StreamView stream);
  // Call before a step: waits until the device has finished the step `steps` before it, or, while that step's lease is
  // still held, the last earlier one whose lease has ended. Returns whether it had to wait. Consumer thread. Throws
  // Error.
  bool wait(std::uint64_t step);

 private:
  struct Mark {
    device::DeviceEvent event;
    std::atomic<std::uint64_t> ended{0};  // step + 1 once the event is recorded for it
  };

  device::Device& device_;
  std::uint32_t steps_;
  std::uint32_t max_leases_;
  std::uint32_t size_;
  std::unique_ptr<Mark[]> marks_;  // by step modulo size_
};

}  // namespace forebay::ring
