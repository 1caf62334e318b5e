// The kernels of packed files as plain loops, which define what the vector kernels (simd_pack.cpp)
// must give, and the list of kernels that this processor can run.

#include "pack_kernels.hpp"

#include <vector>

#include "block_loops.hpp"
#include "jpeg/supported_kernels.hpp"
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

}  // namespace

std::span<const PackKernels> supported_pack_kernels() {
  static const auto& all = jpeg::kernels_that_run_here(kScalarPack, &PackKernels::decode, set_pack_kernels);
  return all;
}

}  // namespace forebay::pack
