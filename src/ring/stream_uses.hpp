#pragma once

#include <atomic>

#include "device/device.hpp"

namespace forebay::ring {

// Where the uses of one piece of device memory end on the trainer's streams, so that it is overwritten only after them.
// One event covers all uses: a stream that ends a use first waits for the event and then records it again, because a
// new record replaces the earlier one. It waits even if it recorded the event last: an equal handle may belong to
// another stream, created after that one was destroyed.
class StreamUses {
 public:
  // Throws Error when the device has no event left.
  explicit StreamUses(device::Device& device) : device_(device), event_(device.make_event()) {}

  // A use ends where the stream is now. Any thread; threads that end uses at the same time take turns. Throws Error.
  void end(StreamView stream);
  // Work put on `stream` from now on happens after the uses that have ended.
  // REQUIRES: no use ends meanwhile, and the caller has acquired what the thread of the last one did.
  void put_after(StreamView stream);

 private:
  device::Device& device_;
  device::DeviceEvent event_;
  bool used_ = false;
  std::atomic_flag busy_;
};

}  // namespace forebay::ring
