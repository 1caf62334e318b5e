#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pack_tables.hpp"
#include "table_set.hpp"
#include "tiles.hpp"

namespace forebay::pack {

// Whether the bytes are a packed JPEG file, of any version; nothing else begins like one.
[[nodiscard]] bool starts_as_packed_jpeg(std::span<const std::byte> bytes) noexcept;
// The PackTables::key() with which the file was packed. Throws SampleError if it has another
// version. REQUIRES: starts_as_packed_jpeg(packed).
[[nodiscard]] std::uint32_t tables_of(std::span<const std::byte> packed);

// A packed JPEG file, parsed except for its coefficients. Belongs to one thread.
//
// The format: signature, three bytes; version, one byte; key of the tables and CRC-32C of all that
// follows, 32 bits each, little-endian; number of the set of codes, flags, and width and height of
// tiles in MCUs, one byte each; the file's header, written by HeaderParts; with kHasTail, the
// number of bytes that follow the scan in the file, and these bytes; the length of each tile, row
// by row; the tiles. Numbers without a stated size are varints (put_varint()).
class PackedJpeg {
 public:
  static constexpr std::uint8_t kHasTail = 1;   // else only the end-of-image marker follows
  static constexpr std::uint8_t kHasLanes = 2;  // tiles are coded in kLanes lanes

  // Both arguments must stay valid. Throws SampleError if the bytes are damaged, have another
  // version, or were packed with other tables: any changed byte is detected here, whichever part is
  // decoded later. `is_checked`: the bytes matched another checksum when they were read, so their
  // own is not compared.
  void open(std::span<const std::byte> packed, const PackTables& tables, bool is_checked = false);

  // The file up to its scan, followed by an end-of-image marker.
  [[nodiscard]] std::span<const std::byte> header() const noexcept { return header_; }
  // The bytes of the file after its scan.
  [[nodiscard]] std::span<const std::byte> tail() const noexcept { return tail_; }
  // Whether the end-of-image marker follows the scan directly.
  [[nodiscard]] bool ends_behind_scan() const noexcept;
  [[nodiscard]] const TableSet& set() const noexcept { return *set_; }
  [[nodiscard]] std::size_t lanes() const noexcept { return lanes_; }
  // The grid of the file's tiles in an image of this many MCUs.
  [[nodiscard]] TileGrid grid(const jpeg::JpegFrame& frame) const noexcept {
    return {
        .mcus_across = frame.mcus_across, .mcus_down = frame.mcus_down, .width = tile_width_, .height = tile_height_};
  }
  // Everything from the length of the first tile on.
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

// What precedes the file's header.
struct PackedPrefix {
  std::uint32_t key = 0;
  std::uint8_t set = 0;
  std::uint8_t flags = 0;
  std::uint8_t tile_width = 1;
  std::uint8_t tile_height = 1;
};
// Writes the prefix to `out`, which must be empty.
void put_prefix(std::vector<std::byte>& out, const PackedPrefix& prefix);
// Called when the file is complete. REQUIRES: put_prefix() began it.
void set_checksum(std::span<std::byte> packed) noexcept;

}  // namespace forebay::pack
