#include "exif.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace forebay::data {
namespace {

constexpr std::array<std::byte, 6> kExifHeader{std::byte{'E'}, std::byte{'x'}, std::byte{'i'},
                                               std::byte{'f'}, std::byte{0},   std::byte{0}};
constexpr std::uint16_t kOrientationTag = 0x0112;
// Types of a number; the standard says SHORT, and some writers do not keep to it.
enum TiffType : std::uint16_t { kByte = 1, kShort = 3, kLong = 4, kSignedByte = 6, kSignedShort = 8, kSignedLong = 9 };
constexpr std::size_t kTiffEntryBytes = 12;
constexpr int kAsStored = 1;

// A TIFF structure in either byte order; a read that would leave it gives nothing.
// EXIF is a TIFF structure (TIFF 6.0, section 2). It is read for every JPEG that is decoded, from
// bytes that anyone may have written: nothing is trusted and nothing is allocated.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] bool find_byte_order() noexcept {
    if (bytes_.size() < 2 || bytes_[0] != bytes_[1]) return false;
    big_endian_ = bytes_[0] == std::byte{'M'};
    return big_endian_ || bytes_[0] == std::byte{'I'};
  }
  [[nodiscard]] std::optional<std::uint16_t> u16(std::size_t at) const noexcept {
    if (at > bytes_.size() || bytes_.size() - at < 2) return std::nullopt;
    const auto first = std::to_integer<unsigned>(bytes_[at]);
    const auto second = std::to_integer<unsigned>(bytes_[at + 1]);
    return static_cast<std::uint16_t>(big_endian_ ? first << 8U | second : second << 8U | first);
  }
  [[nodiscard]] std::optional<std::uint32_t> u32(std::size_t at) const noexcept {
    const auto first = u16(at);
    const auto second = u16(at + 2);
    if (!first || !second) return std::nullopt;
    const std::uint32_t high = big_endian_ ? *first : *second;
    const std::uint32_t low = big_endian_ ? *second : *first;
    return high << 16U | low;
  }
  // One that is not negative, of this type.
  [[nodiscard]] std::optional<std::uint32_t> number(std::uint16_t type, std::size_t at) const noexcept {
    switch (type) {
      case kByte:
      case kSignedByte:
        if (at >= bytes_.size()) return std::nullopt;
        return std::to_integer<std::uint32_t>(bytes_[at]);
      case kShort:
      case kSignedShort: return u16(at);
      case kLong:
      case kSignedLong: return u32(at);
      default: return std::nullopt;
    }
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_ = false;
};

}  // namespace

bool is_exif(std::span<const std::byte> segment) noexcept {
  return segment.size() >= kExifHeader.size() && std::equal(kExifHeader.begin(), kExifHeader.end(), segment.begin());
}

int exif_orientation(std::span<const std::byte> segment) noexcept {
  return is_exif(segment) ? tiff_orientation(segment.subspan(kExifHeader.size())) : kAsStored;
}

// Byte order, 42, the place of the first directory. Its entries have a tag, a type, a count, and
// the value in place if it fits into four bytes. Anything odd counts as not turned, as other
// programs have it.
int tiff_orientation(std::span<const std::byte> structure) noexcept {
  Tiff tiff(structure);
  if (!tiff.find_byte_order() || tiff.u16(2) != 42) return kAsStored;
  const auto directory = tiff.u32(4);
  if (!directory) return kAsStored;
  const auto entries = tiff.u16(*directory);
  for (std::size_t i = 0; i < entries.value_or(0); ++i) {
    const std::size_t entry = *directory + std::size_t{2} + i * kTiffEntryBytes;
    const auto tag = tiff.u16(entry);
    if (!tag) return kAsStored;
    if (*tag != kOrientationTag) continue;
    if (tiff.u32(entry + 4) != 1U) return kAsStored;
    const auto value = tiff.number(tiff.u16(entry + 2).value_or(0), entry + 8);
    return value && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : kAsStored;
  }
  return kAsStored;
}

}  // namespace forebay::data
