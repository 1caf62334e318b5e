#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "device/device.hpp"

namespace forebay::cuda {

// Memory of the GPU, zero. It may outlive its device. Throws Error when there is no room.
[[nodiscard]] std::unique_ptr<device::Arena> allocate_on_gpu(int gpu, std::size_t bytes);

// Pinned memory of the host on `numa_node` (-1: anywhere), zero. Not write-combined: decoders read what they wrote.
// Likewise.
[[nodiscard]] std::unique_ptr<device::Arena> allocate_pinned(int gpu, int numa_node, std::size_t bytes);

// The NUMA node that a GPU hangs on; -1 where the machine has one node only or does not say.
[[nodiscard]] int numa_node_of(int gpu);

// The number in /sys/bus/pci/devices/ADDRESS/numa_node; -1 when it is not there. `pci_address` in either case.
[[nodiscard]] int numa_node_of_pci(std::string_view pci_address, const std::string& sysfs = "/sys");

// "0000:1b:00.0"; empty when CUDA does not say.
[[nodiscard]] std::string pci_address_of(int gpu);

// What the calling thread allocates from now on comes from the node, where it has room. Returns why that cannot be
// asked for (containers often forbid it), else an empty text.
[[nodiscard]] std::string prefer_numa_node(int node);

}  // namespace forebay::cuda
