#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "image.hpp"

namespace forebay {

// Turns a sample of Encoding::raw (rows from the top, channels interleaved, 8 bits) into RGB; grey is replicated.
// Throws SampleError when there are not exactly width * height * channels bytes, a side is below 1, or channels is
// neither 1 nor 3. Any thread may call with an `out` of its own.
void decode_raw(std::span<const std::byte> bytes, std::int32_t width, std::int32_t height, std::int32_t channels,
                Image& out);

}  // namespace forebay
