#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "symbol_code.hpp"

namespace forebay::pack {

// The bits from which symbols are read; the lowest bit of a byte comes first. After the last byte
// all bits are 0.
struct Lane {
  const std::uint8_t* bytes = nullptr;
  std::size_t size = 0;        // in bytes
  std::size_t bits_taken = 0;  // may exceed the size
};

// Symbols are divided among the lanes into stretches of equal length; only the last ones may be
// shorter.
inline constexpr std::size_t kLanes = 4;
[[nodiscard]] constexpr std::size_t lane_length(std::size_t symbols, std::size_t lanes) noexcept {
  return (symbols + lanes - 1) / lanes;
}

// The position from which the next blocks are taken: the streams of a tile for one kind of block.
// kSlack bytes after each stream are readable.
struct BlockStreams {
  static constexpr std::size_t kSlack = 64;

  const std::int16_t* dc = nullptr;  // the first coefficients, differences already added up
  const std::uint8_t* groups = nullptr;
  std::array<const std::uint8_t*, 3> masks{};
  const std::uint8_t* late_masks = nullptr;
  std::array<const std::uint8_t*, 3> values{};
  std::array<const std::byte*, 3> escaped{};  // 16 bits each
  bool has_escaped = false;                   // whether there are any
};

// The steps of decoding packed coefficients, for one kind of processor. All implementations give
// the same results.
struct PackKernels {
  // Bytes after `count` symbols that decode() may read and overwrite.
  static constexpr std::size_t kSlack = 32;

  const char* name;

  // Reads `count` symbols from one lane or from kLanes. Never reads outside the lanes, whatever
  // they contain.
  void (*decode)(std::span<Lane> lanes, const SymbolTable& table, std::uint8_t* out, std::size_t count) noexcept;

  // Takes `count` blocks and writes them, with their extents, to `blocks`, a row of CoefficientRow,
  // from block `first` on. REQUIRES: the streams contain that many blocks and their coefficients;
  // the coefficients in the row are 0.
  void (*expand)(BlockStreams& streams, std::size_t count, std::size_t first, std::int16_t* blocks,
                 std::uint8_t* extents) noexcept;

  // Skips `count` blocks. REQUIRES: as for expand().
  void (*skip)(BlockStreams& streams, std::size_t count) noexcept;

  // The number of set bits of `count` bytes under `mask`, which is one byte repeated eight times.
  // Reads kSlack bytes beyond them.
  std::size_t (*count_bits)(const std::uint8_t* bytes, std::size_t count, std::uint64_t mask) noexcept;
  // The number of bytes among `count` that equal `value`.
  std::size_t (*count_equal)(const std::uint8_t* bytes, std::size_t count, std::uint8_t value) noexcept;

  // Running sums of differences, which are signed bytes: sum n adds `before` and the first n + 1
  // differences, and wraps around. Stops before the first byte that is kEscapedValue; returns the
  // number of sums. Reads and writes up to kSlack bytes beyond them.
  std::size_t (*sum)(const std::uint8_t* differences, std::size_t count, std::int16_t before,
                     std::int16_t* sums) noexcept;
};

// The kernels that this processor can run, fastest first. The last ones are plain loops, which define the results of
// all others. The same in every call; any thread may call.
[[nodiscard]] std::span<const PackKernels> supported_pack_kernels();

// Fills in the kernels compiled for `target`, one of Highway's targets. Any thread may call.
void set_pack_kernels(std::int64_t target, PackKernels& kernels);

}  // namespace forebay::pack
