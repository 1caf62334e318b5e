// The container format of a packed JPEG file: writes and checks everything before the tiles.
// Packing uses the writing functions, decoder threads PackedJpeg::open(). The coefficients are read
// by packed_coefficients.cpp.

#include "packed_jpeg.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/crc32c.hpp"
#include "byte_reader.hpp"
#include "header_parts.hpp"
#include "pack_kernels.hpp"

namespace forebay::pack {
namespace {

// No text, and no other known format, begins like this.
constexpr std::array kSignature{std::byte{0xfb}, std::byte{'P'}, std::byte{'J'}};
// The layout: signature, version, key of the tables (4 bytes), CRC-32C of what follows (4), then
// set, flags and the tile's sides, a byte each; the header's parts; the tail, if any; and the
// tiles.
constexpr unsigned kVersion = 1;
constexpr std::size_t kVersionAt = kSignature.size();
constexpr std::size_t kKeyAt = kVersionAt + 1;
constexpr std::size_t kChecksumAt = kKeyAt + sizeof(std::uint32_t);
constexpr std::size_t kChecked = kChecksumAt + sizeof(std::uint32_t);
constexpr std::array kEndOfImage{std::byte{0xff}, std::byte{0xd9}};

// 32 bits, little-endian on every machine.
std::uint32_t fixed_number(std::span<const std::byte> bytes, std::size_t at) noexcept {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < sizeof(number); ++i) {
    number |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
  }
  return number;
}

void set_fixed_number(std::span<std::byte> bytes, std::size_t at, std::uint32_t number) noexcept {
  for (std::size_t i = 0; i < sizeof(number); ++i) bytes[at + i] = static_cast<std::byte>(number >> (8 * i));
}

}  // namespace

bool starts_as_packed_jpeg(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kChecksumAt && std::ranges::equal(kSignature, bytes.first(kSignature.size()));
}

std::uint32_t tables_of(std::span<const std::byte> packed) {
  const auto version = std::to_integer<unsigned>(packed[kVersionAt]);
  if (version != kVersion) {
    throw SampleError("a packed JPEG of version " + std::to_string(version) + "; this Forebay reads version " +
                      std::to_string(kVersion) + " alone");
  }
  return fixed_number(packed, kKeyAt);
}

void put_prefix(std::vector<std::byte>& out, const PackedPrefix& prefix) {
  put_bytes(out, kSignature);
  out.resize(kChecked);
  out[kVersionAt] = static_cast<std::byte>(kVersion);
  set_fixed_number(out, kKeyAt, prefix.key);
  for (const std::uint8_t byte : {prefix.set, prefix.flags, prefix.tile_width, prefix.tile_height}) {
    out.push_back(std::byte{byte});
  }
}

void set_checksum(std::span<std::byte> packed) noexcept {
  set_fixed_number(packed, kChecksumAt, crc32c(packed.subspan(kChecked)));
}

// In nearly all files the end-of-image marker follows the scan directly.
bool PackedJpeg::ends_behind_scan() const noexcept {
  return tail_.size() >= kEndOfImage.size() && std::ranges::equal(kEndOfImage, tail_.first(kEndOfImage.size()));
}

// The checksum covers everything after itself. With `is_checked` it is not compared, because
// whoever read the bytes has verified them.
void PackedJpeg::open(std::span<const std::byte> packed, const PackTables& tables, bool is_checked) {
  if (!starts_as_packed_jpeg(packed)) throw SampleError("not a packed JPEG");
  if (tables_of(packed) != tables.key()) throw SampleError("a packed JPEG, but not of the tables that it is read with");
  const bool is_whole = packed.size() >= kChecked &&
                        (is_checked || fixed_number(packed, kChecksumAt) == crc32c(packed.subspan(kChecked)));
  if (!is_whole) {
    throw SampleError("damaged: a packed JPEG whose checksum differs");
  }
  ByteReader reader(packed.subspan(kChecked));
  const std::uint8_t set = reader.byte();
  const std::uint8_t flags = reader.byte();
  tile_width_ = reader.byte();
  tile_height_ = reader.byte();
  if (set >= tables.sets() || flags > (kHasTail | kHasLanes) || tile_width_ == 0 || tile_height_ == 0 ||
      tile_width_ * tile_height_ > TileGrid::kMostMcus) {
    throw SampleError("damaged: a packed JPEG whose first bytes are none");
  }
  set_ = &tables.set(set);
  lanes_ = (flags & kHasLanes) != 0 ? kLanes : 1;
  tables.header_parts().read(reader, header_);
  put_bytes(header_, kEndOfImage);
  tail_ = kEndOfImage;
  if ((flags & kHasTail) != 0) tail_ = reader.bytes(reader.number());
  tiles_ = reader.rest();
}

}  // namespace forebay::pack
