#include "device_contract.hpp"

#include "device/host_device.hpp"
#include "simulated_device.hpp"

using namespace forebay::device;

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

TEST_CASE("huge pages of 512 MiB are not asked for") {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
  HostDevice with_64_kib_pages(512 * kMebibyte);
  CHECK(with_64_kib_pages.allocate(8 * kMebibyte)->describe() == "host memory");
  CHECK(with_64_kib_pages.allocate_growing(8 * kMebibyte, kMebibyte)->describe() == "host memory");
}

}  // namespace
}  // namespace forebay::testing
