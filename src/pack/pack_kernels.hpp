#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "symbol_code.hpp"

namespace forebay::pack {

// The bits from which symbols are read, lowest bit of a byte first. After the last byte all bits are 0.
struct Lane {
  const std::uint8_t* bytes = nullptr;
  std::size_t size = 0;        // of them
  std::size_t bits_taken = 0;  // may pass the end
};

// Symbols are dealt to the lanes in as many stretches of equal length, but for the last ones.
inline constexpr std::size_t kLanes = 4;
[[nodiscard]] constexpr std::size_t lane_length(std::size_t symbols, std::size_t lanes) noexcept {
  return (symbols + lanes - 1) / lanes;
}

// Where the blocks come from that are taken next: streams of a tile for one kind of block, with kSlack readable bytes
// behind each.
struct BlockStreams {
  static constexpr std::size_t kSlack = 64;

  const std::int16_t* dc = nullptr;  // the first coefficients themselves
  const std::uint8_t* groups = nullptr;
  std::array<const std::uint8_t*, 3> masks{};
  const std::uint8_t* late_masks = nullptr;
  std::array<const std::uint8_t*, 3> values{};
  std::array<const std::byte*, 3> escaped{};  // 16 bits each
  bool has_escaped = false;                   // any of them
};

// The steps of decoding packed coefficients, for one kind of processor. All kernels give the same results.
struct PackKernels {
  // Bytes after `count` symbols that decode() may read and overwrite.
  static constexpr std::size_t kSlack = 32;

  const char* name;

  // Reads `count` symbols from one lane or from kLanes. Never reads outside of the lanes, whatever they contain.
  void (*decode)(std::span<Lane> lanes, const SymbolTable& table, std::uint8_t* out, std::size_t count) noexcept;

  // Takes `count` blocks: writes them to `blocks`, a row of CoefficientRow, from block `first` on, with their extents.
  // REQUIRES: the streams contain that many blocks and their coefficients; those in the row are 0.
  void (*expand)(BlockStreams& streams, std::size_t count, std::size_t first, std::int16_t* blocks,
                 std::uint8_t* extents) noexcept;

  // Skips `count` blocks. REQUIRES: as for expand().
  void (*skip)(BlockStreams& streams, std::size_t count) noexcept;

  // Bits of `count` bytes that are set, of those in `mask`, a byte repeated eight times. Reads kSlack bytes more.
  std::size_t (*count_bits)(const std::uint8_t* bytes, std::size_t count, std::uint64_t mask) noexcept;
  // Bytes among `count` that are equal to this one.
  std::size_t (*count_equal)(const std::uint8_t* bytes, std::size_t count, std::uint8_t value) noexcept;

  // Sums of differences, signed bytes: the nth is that of `before` and the first n + 1, and wraps. Ends before the
  // first byte that is kEscapedValue; returns how many there are. Reads and writes up to kSlack bytes behind them.
  std::size_t (*sum)(const std::uint8_t* differences, std::size_t count, std::int16_t before,
                     std::int16_t* sums) noexcept;
};

// Plain loops, which define the results of the others. Any thread may call.
[[nodiscard]] const PackKernels& scalar_pack_kernels() noexcept;

// The kernels that this processor can run, fastest first, the scalar ones last. Never empty; the same in every call.
// Any thread may call.
[[nodiscard]] std::span<const PackKernels> supported_pack_kernels();

// Fills in the kernels compiled for `target`, one of Highway's. Any thread may call.
void set_pack_kernels(std::int64_t target, PackKernels& kernels);

}  // namespace forebay::pack
