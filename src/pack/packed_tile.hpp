#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "jpeg/coefficients.hpp"
#include "pack_kernels.hpp"
#include "table_set.hpp"
#include "tiles.hpp"

namespace forebay::pack {

// A tile being decoded: its streams of symbols, and how far blocks have been taken from them.
// Belongs to one thread.
//
// Invariant: the length of a stream follows from the decoded streams before it: `groups` and the
// masks determine the numbers of masks and values. So blocks can be taken without checking for an
// end, whatever the bytes were.
class PackedTile {
 public:
  struct Source {
    std::span<const std::byte> bytes;     // the tile
    const std::byte* readable = nullptr;  // end of what may be read, at or after `bytes`
    const TableSet* set = nullptr;
    std::size_t lanes = 1;
  };

  // Reads the streams of the first `kinds` kinds of blocks. Throws SampleError if the bytes are
  // damaged. REQUIRES: at most TileGrid::kMostMcus; `frame` stays valid.
  void load(const PackKernels& kernels, const Source& source, const jpeg::JpegFrame& frame, const jpeg::McuRegion& mcus,
            std::size_t kinds);

  // Fills the part of the row that belongs to this tile. REQUIRES: a row of this tile, below all
  // rows read since load(); only components of kinds that were loaded.
  void read(const PackKernels& kernels, std::int32_t mcu_row, jpeg::CoefficientRow& row);

  // Bytes of memory that it holds, and how many of them load() used.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

 private:
  struct Free {
    void operator()(std::uint8_t* memory) const noexcept;
  };
  // Where a stream is in memory_.
  struct Part {
    std::size_t at = 0;
    std::size_t count = 0;
  };
  class Loading;

  // Makes room for this many bytes after the used ones, which are kept.
  void make_room(std::size_t bytes);

  std::unique_ptr<std::uint8_t[], Free> memory_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  const jpeg::JpegFrame* frame_ = nullptr;
  jpeg::McuRegion mcus_;
  std::int32_t next_row_ = 0;
  std::array<BlockStreams, kBlockKinds> streams_{};
};

}  // namespace forebay::pack
