#include "numa.hpp"

#include <cuda_runtime_api.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace forebay::cuda {

std::string pci_address_of(int gpu) {
  std::array<char, 32> text{};
  if (cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), gpu) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return "";
  }
  std::string address = text.data();
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return address;
}

int numa_node_of_pci(std::string_view pci_address, const std::string& sysfs) {
  std::string address(pci_address);
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  int node = -1;
  std::ifstream in(sysfs + "/bus/pci/devices/" + address + "/numa_node");
  return in >> node ? node : -1;
}

int numa_node_of(int gpu) {
#if CUDART_VERSION >= 12020
  int node = -1;
  if (cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, gpu) == cudaSuccess && node >= 0) return node;
  static_cast<void>(cudaGetLastError());
#endif
  return numa_node_of_pci(pci_address_of(gpu));
}

std::string prefer_numa_node(int node) {
  constexpr int kWordBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, 16> nodes{};  // 1024, as many as Linux knows
  if (node < 0 || node >= kWordBits * static_cast<int>(nodes.size())) return "no such NUMA node";
  nodes[static_cast<std::size_t>(node / kWordBits)] = 1UL << (node % kWordBits);
  // The kernel leaves out the last bit of the length it is given.
  const unsigned long bits = kWordBits * nodes.size() + 1;
  if (::syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), bits) == 0) return "";
  return std::strerror(errno);
}

}  // namespace forebay::cuda
