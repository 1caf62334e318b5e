#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "device/device.hpp"

namespace forebay::ring {

// The additional streams on which leases are used (Lease::use_on()). Leases are identified by their steps, as counted
// by this process. Any thread, but one at a time for each lease.
class OtherStreams {
 public:
  // Throws Error if the device has no event left.
  explicit OtherStreams(device::Device& device) : device_(device), event_(device.make_event()) {}

  // Orders work queued on `other` from now on after what is on `after` now; without `after` the batch is already
  // complete. Done once for each lease and stream: what precedes the batch is on `after` from the start. Throws Error.
  void add(std::uint64_t step, StreamView other, std::optional<StreamView> after);
  // Ends the lease: work queued on `stream` from now on happens after what is on its other streams now. Throws Error.
  void end(std::uint64_t step, StreamView stream);

 private:
  struct Use {
    std::uint64_t step;
    StreamView stream;
  };

  [[nodiscard]] bool is_known(std::uint64_t step, StreamView stream) const;
  void put_after(StreamView before, StreamView after);

  device::Device& device_;
  std::atomic<std::size_t> count_{0};  // size of uses_
  std::mutex mutex_;                   // guards what follows
  device::DeviceEvent event_;          // a later record does not affect waits queued before it
  std::vector<Use> uses_;
};

}  // namespace forebay::ring
