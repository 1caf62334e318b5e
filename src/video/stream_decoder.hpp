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

// Sets the packet to these bytes, stored in `memory` with the padding that decoders require. `number` becomes its
// timestamp, and so its frame's: nothing depends on how a decoder treats times.
void fill_packet(AVPacket& packet, std::span<const std::byte> bytes, std::int64_t number,
                 std::vector<std::uint8_t>& memory);

}  // namespace forebay::video
