#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "device/device.hpp"

namespace forebay::ring {

// The streams beside their own on which leases are used (Lease::use_on()). Leases are known by their steps, counted by
// this process. Any thread, but one at a time for each lease.
class OtherStreams {
 public:
  // Throws Error when the device has no event left.
  explicit OtherStreams(device::Device& device) : device_(device), event_(device.make_event()) {}

  // Work put on `other` from now on happens after what is on `after` now; no `after`: the batch is complete already.
  // Once for each lease and stream: what came before the batch is on `after` from the start. Throws Error.
  void add(std::uint64_t step, StreamView other, std::optional<StreamView> after);
  // The lease ends: work put on `stream` from now on happens after what is on its other streams now. Throws Error.
  void end(std::uint64_t step, StreamView stream);

 private:
  struct Use {
    std::uint64_t step;
    StreamView stream;
  };

  [[nodiscard]] bool is_known(std::uint64_t step, StreamView stream) const;
  void put_after(StreamView before, StreamView after);

  device::Device& device_;
  std::atomic<std::size_t> count_{0};  // of uses_
  std::mutex mutex_;                   // guards what follows
  device::DeviceEvent event_;          // a later record does not concern the waits that were put before
  std::vector<Use> uses_;
};

}  // namespace forebay::ring
