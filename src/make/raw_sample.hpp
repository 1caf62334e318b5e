#pragma once

#include <cstddef>
#include <span>

#include <forebay/dataset.hpp>

#include "image.hpp"

namespace forebay::make {

// Turns the bytes of a sample of Encoding::raw (rows from the top, 8 bits) into interleaved RGB; grey is replicated.
// Throws SampleError when there are not exactly width * height * channels bytes, a side is below 1, or channels is
// neither 1 nor 3. Any thread may call with an `out` of its own.
void decode_raw(std::span<const std::byte> bytes, const Sample& sample, Image& out);

}  // namespace forebay::make
