#include "raw_sample.hpp"

#include <array>
#include <cstring>
#include <string>

#include <forebay/error.hpp>

namespace forebay::make {

// Pixels as they stand in a record: interleaved or by planes, RGB or BGR, or grey, which becomes R
// = G = B.
void decode_raw(std::span<const std::byte> bytes, const Sample& sample, Image& out) {
  const auto [width, height, channels] = std::array{sample.width, sample.height, sample.channels};
  const auto shape = std::to_string(width) + " x " + std::to_string(height) + " x " + std::to_string(channels);
  if (width < 1 || height < 1 || (channels != 1 && channels != 3)) {
    throw SampleError("raw pixels of " + shape + " cannot be served: sides must be 1 or more, channels 1 or 3");
  }
  const auto pixels = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  if (bytes.size() / static_cast<std::size_t>(channels) != pixels ||
      bytes.size() % static_cast<std::size_t>(channels) != 0) {
    throw SampleError("raw pixels of " + shape + " need " +
                      std::to_string(pixels * static_cast<std::size_t>(channels)) + " bytes, but there are " +
                      std::to_string(bytes.size()));
  }
  out.resize(width, height);
  std::uint8_t* to = out.pixels.data();
  if (channels == 3 && !sample.planar && !sample.bgr) {
    std::memcpy(to, bytes.data(), bytes.size());
    return;
  }
  if (channels == 3) {
    // From one pixel of a channel to the next, and from one channel to the next.
    const std::size_t step = sample.planar ? 1 : 3;
    const std::size_t plane = sample.planar ? pixels : 1;
    for (std::size_t i = 0; i < pixels; ++i) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const std::size_t from = sample.bgr ? 2 - channel : channel;
        *to++ = std::to_integer<std::uint8_t>(bytes[from * plane + i * step]);
      }
    }
    return;
  }
  for (const std::byte grey : bytes) {
    to[0] = to[1] = to[2] = std::to_integer<std::uint8_t>(grey);
    to += 3;
  }
}

}  // namespace forebay::make
