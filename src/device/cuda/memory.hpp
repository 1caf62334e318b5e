#pragma once

#include <cstddef>
#include <memory>

#include "device/device.hpp"

namespace forebay::cuda {

// Memory of the GPU, zero. It may outlive its device. Throws Error when there is no room.
[[nodiscard]] std::unique_ptr<Arena> allocate_on_gpu(int gpu, std::size_t bytes);

// Pinned memory of the host on `numa_node` (-1: anywhere), zero. Not write-combined: decoders read what they wrote.
// Likewise.
[[nodiscard]] std::unique_ptr<Arena> allocate_pinned(int gpu, int numa_node, std::size_t bytes);

}  // namespace forebay::cuda
