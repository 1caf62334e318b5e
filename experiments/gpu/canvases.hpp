#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <forebay/random.hpp>

#include "gpu.hpp"
#include "make/canvas.hpp"

namespace forebay::gpu_check {

// A slot of canvases of noise, of images of up to `most` pixels each way.
inline std::vector<std::byte> noise_canvases(const make::CanvasFormat& format, std::int32_t most, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> slot(format.batch_bytes());
  for (std::byte& byte : slot) byte = static_cast<std::byte>(random.bits());
  for (std::uint32_t i = 0; i < format.batch_size; ++i) {
    const auto side = [&] { return static_cast<std::int32_t>(1 + random.below(static_cast<std::uint64_t>(most))); };
    make::CanvasInfo info{.width = side(), .height = side()};
    info.canvas_width = std::min(info.width, static_cast<std::int32_t>(format.width));
    info.canvas_height = std::min(info.height, static_cast<std::int32_t>(format.height));
    std::memcpy(slot.data() + format.infos_offset() + i * sizeof(info), &info, sizeof(info));
  }
  return slot;
}

enum class Pixels : std::uint8_t { noise, smooth };

// A slot of canvases that are full, of images of 500 x 375 pixels. Smooth ones look more like photographs: neighbours
// differ by few grey levels.
inline std::vector<std::byte> full_canvases(const make::CanvasFormat& format, Pixels pixels, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> slot = noise_canvases(format, 1, seed);
  const make::CanvasInfo whole{.width = 500,
                               .height = 375,
                               .canvas_width = std::min(500, static_cast<std::int32_t>(format.width)),
                               .canvas_height = std::min(375, static_cast<std::int32_t>(format.height))};
  for (std::uint32_t i = 0; i < format.batch_size; ++i) {
    const make::SamplePlace place = format.place(slot, i);
    std::memcpy(place.info.data(), &whole, sizeof(whole));
    if (pixels == Pixels::noise) continue;
    // A ramp for each channel, in 1 / 256 of a grey level for each pixel, under a few grey levels of noise.
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const std::uint64_t across = random.below(96);
      const std::uint64_t down = random.below(96);
      const std::uint64_t corner = random.below(64) * 256;
      for (std::size_t y = 0; y < static_cast<std::size_t>(format.height); ++y) {
        for (std::size_t x = 0; x < static_cast<std::size_t>(format.width); ++x) {
          const std::uint64_t grey = (corner + x * across + y * down + random.below(3 * 256)) / 256;
          place.pixels[y * format.row_bytes() + 3 * x + channel] =
              static_cast<std::byte>(std::min<std::uint64_t>(grey, 255));
        }
      }
    }
  }
  return slot;
}

// A copy of it on the device.
inline std::unique_ptr<device::Arena> upload(device::Device& device, const std::vector<std::byte>& slot) {
  const auto staging = device.allocate_staging(slot.size());
  std::unique_ptr<device::Arena> memory = device.allocate(slot.size());
  std::memcpy(staging->bytes().data(), slot.data(), slot.size());
  const StreamView stream = device.make_stream();
  const device::DeviceEvent copied = device.make_event();
  device.copy_in(memory->bytes().data(), staging->bytes().data(), slot.size(), stream);
  device.record(copied, stream);
  device.synchronize(copied);
  return memory;
}

}  // namespace forebay::gpu_check
