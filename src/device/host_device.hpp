#pragma once

#include <forebay/detail/device.hpp>

namespace forebay {

// Batches in ordinary memory. An arena asks for transparent huge pages and touches every page at once, so that no
// page fault is left for the first epoch.
class HostDevice final : public Device {
 public:
  [[nodiscard]] DeviceKind kind() const noexcept override { return DeviceKind::host; }
  [[nodiscard]] std::unique_ptr<Arena> allocate(std::size_t bytes) override;
};

}  // namespace forebay
