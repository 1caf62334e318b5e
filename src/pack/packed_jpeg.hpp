#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pack_tables.hpp"
#include "table_set.hpp"
#include "tiles.hpp"

namespace forebay::pack {

// Whether bytes are a packed JPEG file, of any version; nothing else begins like one.
[[nodiscard]] bool starts_as_packed_jpeg(std::span<const std::byte> bytes) noexcept;
// The PackTables::key() with which it was packed. Throws SampleError if it is of another version. REQUIRES:
// starts_as_packed_jpeg(packed).
[[nodiscard]] std::uint32_t tables_of(std::span<const std::byte> packed);

// A packed JPEG file, parsed except for its coefficients.
//
// Signature, three bytes; version, a byte; key and CRC-32C of all that follows, 32 bits each, the lowest byte first;
// number of the set of codes; flags; width and height of tiles, MCUs;
// the file's header as HeaderParts wrote it; with kHasTail, how many bytes follow the scan in the file, and they; for
// each tile, row by row, its length; the tiles. Numbers without a size are those of put_varint().
class PackedJpeg {
 public:
  static constexpr std::uint8_t kHasTail = 1;   // else the end-of-image marker alone follows the scan
  static constexpr std::uint8_t kHasLanes = 2;  // tiles are coded in kLanes lanes

  // Both must stay valid. Throws SampleError if these bytes are damaged, of another version, or were packed with other
  // tables: any changed byte is detected here, whatever part is decoded later. `is_checked`: the bytes have matched
  // another checksum, and their own is not compared.
  void open(std::span<const std::byte> packed, const PackTables& tables, bool is_checked = false);

  // The file up to its scan, followed by an end-of-image marker.
  [[nodiscard]] std::span<const std::byte> header() const noexcept { return header_; }
  // The bytes of the file after its scan.
  [[nodiscard]] std::span<const std::byte> tail() const noexcept { return tail_; }
  // Whether the end-of-image marker follows the scan at once.
  [[nodiscard]] bool ends_behind_scan() const noexcept;
  [[nodiscard]] const TableSet& set() const noexcept { return *set_; }
  [[nodiscard]] std::size_t lanes() const noexcept { return lanes_; }
  // The grid of its tiles in an image of this many MCUs.
  [[nodiscard]] TileGrid grid(const jpeg::JpegFrame& frame) const noexcept {
    return {
        .mcus_across = frame.mcus_across, .mcus_down = frame.mcus_down, .width = tile_width_, .height = tile_height_};
  }
  // From the first tile's length on.
  [[nodiscard]] std::span<const std::byte> tiles() const noexcept { return tiles_; }

 private:
  std::vector<std::byte> header_;
  std::span<const std::byte> tail_;
  std::span<const std::byte> tiles_;
  const TableSet* set_ = nullptr;
  std::size_t lanes_ = 1;
  std::int32_t tile_width_ = 1;
  std::int32_t tile_height_ = 1;
};

// What stands before the file's header.
struct PackedPrefix {
  std::uint32_t key = 0;
  std::uint8_t set = 0;
  std::uint8_t flags = 0;
  std::uint8_t tile_width = 1;
  std::uint8_t tile_height = 1;
};
// At the beginning of `out`, which is empty.
void put_prefix(std::vector<std::byte>& out, const PackedPrefix& prefix);
// Once the file is complete. REQUIRES: put_prefix() began it
void set_checksum(std::span<std::byte> packed) noexcept;

}  // namespace forebay::pack
