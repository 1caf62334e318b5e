#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <forebay/detail/canvas.hpp>
#include <forebay/random.hpp>

#include "gpu.hpp"

namespace forebay::gpu_check {

// A slot of canvases of noise, of images of up to `most` pixels each way.
inline std::vector<std::byte> noise_canvases(const CanvasFormat& format, std::int32_t most, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> slot(format.batch_bytes());
  for (std::byte& byte : slot) byte = static_cast<std::byte>(random.bits());
  for (std::uint32_t i = 0; i < format.batch_size; ++i) {
    const auto side = [&] { return static_cast<std::int32_t>(1 + random.below(static_cast<std::uint64_t>(most))); };
    CanvasInfo info{.width = side(), .height = side()};
    info.canvas_width = std::min(info.width, static_cast<std::int32_t>(format.width));
    info.canvas_height = std::min(info.height, static_cast<std::int32_t>(format.height));
    std::memcpy(slot.data() + format.infos_offset() + i * sizeof(info), &info, sizeof(info));
  }
  return slot;
}

// A copy of it on the device.
inline std::unique_ptr<Arena> upload(Device& device, const std::vector<std::byte>& slot) {
  const auto staging = device.allocate_staging(slot.size());
  std::unique_ptr<Arena> memory = device.allocate(slot.size());
  std::memcpy(staging->bytes().data(), slot.data(), slot.size());
  const StreamView stream = device.make_stream();
  const DeviceEvent copied = device.make_event();
  device.copy_in(memory->bytes().data(), staging->bytes().data(), slot.size(), stream);
  device.record(copied, stream);
  device.synchronize(copied);
  return memory;
}

}  // namespace forebay::gpu_check
