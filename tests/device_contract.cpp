#include "device_contract.hpp"

#include "device/host_device.hpp"
#include "simulated_device.hpp"

namespace forebay::testing {
namespace {

struct HostBench {
  static constexpr bool kRefuses = true;
  explicit HostBench(std::uint64_t /*seed*/) {}
  Device& device() { return host; }
  HostDevice host;
};

struct SimulatedBench {
  static constexpr bool kRefuses = false;
  explicit SimulatedBench(std::uint64_t seed) : simulated(seed) {}
  Device& device() { return simulated; }
  SimulatedDevice simulated;
};

FOREBAY_DEVICE_CONTRACT(HostBench, SimulatedBench);

}  // namespace
}  // namespace forebay::testing
