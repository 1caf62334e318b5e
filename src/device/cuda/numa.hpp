#pragma once

#include <string>
#include <string_view>

namespace forebay::cuda {

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
