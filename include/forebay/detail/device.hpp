#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <forebay/tensor.hpp>

namespace forebay {

// Memory of a device, at a fixed address until it is destroyed. Zero at first.
class Arena {
 public:
  virtual ~Arena() = default;
  // At least as many bytes as were asked for, aligned to 4096.
  [[nodiscard]] virtual std::span<std::byte> bytes() noexcept = 0;
  // Where the memory is and how it is mapped, for the start-up line.
  [[nodiscard]] virtual std::string_view describe() const noexcept = 0;
};

// Where batches reside. Any thread may call.
class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual DeviceKind kind() const noexcept = 0;
  // One allocation that is made once, at the start of a run. Throws Error with the size when there is no room.
  [[nodiscard]] virtual std::unique_ptr<Arena> allocate(std::size_t bytes) = 0;
};

// The device that `device = "..."` names. Throws ConfigError when this build does not have it.
[[nodiscard]] std::unique_ptr<Device> make_device(const std::string& name);

}  // namespace forebay
