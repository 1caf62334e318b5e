#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libav.hpp"
#include "video_table.hpp"

namespace forebay::video {

// A decoder, with one thread, for a stream with these parameters. Throws SampleError.
[[nodiscard]] LibavOwner<AVCodecContext> open_decoder(const StreamParameters& stream, std::int64_t max_pixels);

// Has the packet be these bytes, kept with the padding that decoders read into in `memory`. `number` is its timestamp,
// and so that of its frame: nothing depends on what a decoder makes of times.
void fill_packet(AVPacket& packet, std::span<const std::byte> bytes, std::int64_t number,
                 std::vector<std::uint8_t>& memory);

}  // namespace forebay::video
