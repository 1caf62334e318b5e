#include "pack_kernels.hpp"

#include <vector>

#include <hwy/highway.h>

#include "block_loops.hpp"
#include "lane_loops.hpp"

namespace forebay::pack {
namespace {

void decode_scalar(std::span<Lane> lanes, const SymbolTable& table, std::uint8_t* out, std::size_t count) noexcept {
  if (lanes.size() == kLanes) return decode_all_lanes(lanes, table, out, count);
  decode_one_lane(lanes[0], table, out, count);
}

void expand_scalar(BlockStreams& streams, std::size_t count, std::size_t first, std::int16_t* blocks,
                   std::uint8_t* extents) noexcept {
  expand_blocks(streams, count, first, blocks, extents);
}

void skip_scalar(BlockStreams& streams, std::size_t count) noexcept { skip_blocks(streams, count); }

std::size_t count_bits_scalar(const std::uint8_t* bytes, std::size_t count, std::uint64_t mask) noexcept {
  return count_masked_bits(bytes, count, mask);
}

std::size_t count_equal_scalar(const std::uint8_t* bytes, std::size_t count, std::uint8_t value) noexcept {
  return count_equal_bytes(bytes, count, value);
}

std::size_t sum_scalar(const std::uint8_t* differences, std::size_t count, std::int16_t before,
                       std::int16_t* sums) noexcept {
  return sum_differences(differences, count, before, sums);
}

constexpr PackKernels kScalarPack{"scalar",          decode_scalar,      expand_scalar, skip_scalar,
                                  count_bits_scalar, count_equal_scalar, sum_scalar};

// The plain loops come last and are always there.
std::vector<PackKernels> make_supported_pack() {
  std::vector<PackKernels> all;
  // The best target has the lowest bit. Those that are not compiled for this room have none.
  for (auto targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    const auto target = targets & -targets;
    PackKernels kernels = kScalarPack;
    kernels.name = hwy::TargetName(target);
    set_pack_kernels(target, kernels);
    if (kernels.decode != kScalarPack.decode) all.push_back(kernels);
  }
  all.push_back(kScalarPack);
  return all;
}

}  // namespace

const PackKernels& scalar_pack_kernels() noexcept { return kScalarPack; }

std::span<const PackKernels> supported_pack_kernels() {
  static const std::vector<PackKernels> all = make_supported_pack();
  return all;
}

}  // namespace forebay::pack
