// The size of an image file as it is displayed, from its header alone, for label formats whose
// boxes are fractions of the image. No decoder is involved: only a few KB are read per file, by
// many threads at once.
//
// displayed_size looks at the first bytes and calls the reader of that format. Each finds width and
// height, and the EXIF orientation if the format has one, because rotated images are displayed (and
// labelled) with their sides swapped. make/ decodes with the libraries; both must agree on the size
// of an image.

#include "image_size.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <zlib.h>

#include <forebay/error.hpp>

#include "file_nature.hpp"
#include "image_kinds.hpp"
#include "npy.hpp"

namespace forebay::data {
namespace {

constexpr std::array<std::byte, 6> kExifHeader{std::byte{'E'}, std::byte{'x'}, std::byte{'i'},
                                               std::byte{'f'}, std::byte{0},   std::byte{0}};
constexpr std::uint16_t kOrientationTag = 0x0112;
// TIFF's types of whole numbers. The standard requires SHORT for an orientation, but some writers
// use others.
enum TiffType : std::uint16_t { kByte = 1, kShort = 3, kLong = 4, kSignedByte = 6, kSignedShort = 8, kSignedLong = 9 };
constexpr std::size_t kTiffEntryBytes = 12;
constexpr int kAsStored = 1;

// A TIFF structure in either byte order; a read past its end gives nothing. EXIF is a TIFF
// structure (TIFF 6.0, section 2). It is read for every JPEG that is decoded, from bytes that
// anyone may have written: nothing is trusted and nothing is allocated.
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
  // The number of this type at an offset; nothing if the type is not a whole number. A negative one
  // is read as a large one.
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

// A TIFF structure begins with the byte order, 42, and the offset of the first directory. The
// entries of a directory have a tag, a type, a count, and the value itself if it fits into four
// bytes. Anything odd counts as not rotated, as in other programs.
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

namespace {

using HeaderPart = std::span<const std::byte>;

// Parts of a file's header. Reads it in pieces, because a profile or a thumbnail before the size may have megabytes.
class HeaderBytes {
 public:
  explicit HeaderBytes(const OpenFile& file) : file_(file) {}

  // The bytes at an offset, fewer at the end of the file; valid until the next call. Reads pieces
  // of 16 KiB: most headers need one, and a large EXIF segment is skipped.
  [[nodiscard]] HeaderPart at(std::uint64_t offset, std::size_t bytes) {
    if (offset >= file_.size) return {};
    bytes = std::min<std::uint64_t>(bytes, file_.size - offset);
    if (offset < begin_ || offset + bytes > begin_ + piece_.size()) {
      piece_.resize(std::min<std::uint64_t>(std::max(bytes, kPiece), file_.size - offset));
      read_at(file_, offset, piece_);
      begin_ = offset;
    }
    return HeaderPart(piece_).subspan(offset - begin_, bytes);
  }
  // A whole number of 1 to 8 bytes. Throws SampleError past the end.
  [[nodiscard]] std::uint64_t number(std::uint64_t offset, std::size_t bytes, bool is_big_endian) {
    const HeaderPart digits = at(offset, bytes);
    if (digits.size() < bytes) throw SampleError("its header ends at byte " + std::to_string(file_.size));
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      number = number << 8U | std::to_integer<std::uint64_t>(digits[is_big_endian ? i : bytes - 1 - i]);
    }
    return number;
  }
  [[nodiscard]] std::uint64_t big(std::uint64_t offset, std::size_t bytes) { return number(offset, bytes, true); }
  [[nodiscard]] std::uint64_t little(std::uint64_t offset, std::size_t bytes) { return number(offset, bytes, false); }
  [[nodiscard]] bool holds(std::uint64_t offset, std::string_view text) {
    const HeaderPart there = at(offset, text.size());
    return there.size() == text.size() && std::memcmp(there.data(), text.data(), text.size()) == 0;
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return file_.size; }

 private:
  static constexpr std::size_t kPiece = std::size_t{16} << 10U;

  const OpenFile& file_;
  std::vector<std::byte> piece_;
  std::uint64_t begin_ = 0;
};

// The most that is read of EXIF data outside of a JPEG; only the beginning matters. Chosen: far
// more than an orientation needs.
constexpr std::uint64_t kMostExif = std::uint64_t{1} << 20U;

ImageExtent turned(std::uint64_t width, std::uint64_t height, int orientation) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (width == 0 || height == 0 || width > kMost || height > kMost) {
    throw SampleError("its header says " + std::to_string(width) + "x" + std::to_string(height) + " pixels");
  }
  const bool swaps_sides = orientation >= 5;  // EXIF 2.32, tag 0x0112
  return {static_cast<std::int32_t>(swaps_sides ? height : width),
          static_cast<std::int32_t>(swaps_sides ? width : height)};
}

// Reads segments up to the scan, as libjpeg reads a header; what stands between them is skipped
// (ITU-T T.81, annex B). Markers of frames are C0 to CF without C4 (Huffman tables), C8 (reserved)
// and CC (arithmetic coding). The first APP1 segment (E1) that is EXIF counts.
ImageExtent size_of_jpeg(HeaderBytes& header) {
  std::uint64_t width = 0;
  std::uint64_t height = 0;
  int orientation = 0;  // not yet known
  for (std::uint64_t at = 2; at + 1 < header.size();) {
    if (header.big(at, 1) != 0xFF) {
      ++at;
      continue;
    }
    const std::uint64_t marker = header.big(at + 1, 1);
    if (marker == 0xFF) {
      ++at;
      continue;
    }
    at += 2;
    const bool is_alone = marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD8);
    if (is_alone) continue;
    if (marker == 0xDA || marker == 0xD9) break;
    const std::uint64_t length = header.big(at, 2);
    const bool is_frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (is_frame && width == 0) {
      height = header.big(at + 3, 2);
      width = header.big(at + 5, 2);
    } else if (marker == 0xE1 && orientation == 0 && length > 2) {
      const HeaderPart segment = header.at(at + 2, length - 2);
      if (is_exif(segment)) orientation = exif_orientation(segment);
    }
    at += std::max<std::uint64_t>(length, 2);
  }
  return turned(width, height, orientation);
}

// Whether an eXIf chunk counts: libpng drops those that are too short, have a wrong checksum, or do
// not begin like TIFF.
bool is_png_exif(HeaderBytes& header, std::uint64_t at, std::uint64_t length) {
  if (length < 2) return false;
  const auto first = header.big(at + 8, 1);
  const auto second = header.big(at + 9, 1);
  if (second != 'I' && second != 'M' && second != first) return false;
  if (length > kMostExif) return true;
  const HeaderPart summed = header.at(at + 4, length + 4);
  const auto sum = ::crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()));
  return sum == header.big(at + 8 + length, 4);
}

// IHDR is always the first chunk. Chunks have 4 bytes of length, 4 of name, the data, and 4 of CRC.
// eXIf may stand before or after the pixels (IDAT); only the first one before them counts.
ImageExtent size_of_png(HeaderBytes& header) {
  const std::uint64_t width = header.big(16, 4);
  const std::uint64_t height = header.big(20, 4);
  std::optional<int> orientation;
  for (std::uint64_t at = 8; at + 8 <= header.size() && !header.holds(at + 4, "IDAT");) {
    const std::uint64_t length = header.big(at, 4);
    if (!orientation && header.holds(at + 4, "eXIf") && is_png_exif(header, at, length)) {
      orientation = tiff_orientation(header.at(at + 8, std::min(length, kMostExif)));
    }
    at += 12 + length;
  }
  return turned(width, height, orientation.value_or(1));
}

// RFC 9649. With an extended header, the size is that of the canvas. Sides have 14 bits in VP8;
// VP8L and VP8X store them minus one. Chunks are padded to even lengths. Bytes after the end that
// the RIFF header states do not belong to the image.
ImageExtent size_of_webp(HeaderBytes& header) {
  constexpr std::uint64_t kExifFlag = 8;
  constexpr std::uint64_t kFirst = 12;
  const auto low_bits = [&](std::uint64_t at, std::size_t bytes, unsigned from) {
    return header.little(at, bytes) >> from & 0x3FFFU;
  };
  if (header.holds(kFirst, "VP8 ")) return turned(low_bits(kFirst + 14, 2, 0), low_bits(kFirst + 16, 2, 0), 1);
  if (header.holds(kFirst, "VP8L")) return turned(low_bits(kFirst + 9, 4, 0) + 1, low_bits(kFirst + 9, 4, 14) + 1, 1);
  if (!header.holds(kFirst, "VP8X")) throw SampleError("its header has no size");
  const std::uint64_t width = header.little(kFirst + 12, 3) + 1;
  const std::uint64_t height = header.little(kFirst + 15, 3) + 1;
  int orientation = 1;
  if ((header.little(kFirst + 8, 1) & kExifFlag) != 0) {
    const std::uint64_t end = std::min(header.size(), header.little(4, 4) + 8);
    for (std::uint64_t at = kFirst; at + 8 <= end;) {
      const std::uint64_t length = header.little(at + 4, 4);
      if (header.holds(at, "EXIF")) {
        const HeaderPart exif = header.at(at + 8, std::min(length, kMostExif));
        orientation = is_exif(exif) ? exif_orientation(exif) : tiff_orientation(exif);
        break;
      }
      at += 8 + length + length % 2;
    }
  }
  return turned(width, height, orientation);
}

// TIFF 6.0, and BigTIFF, whose offsets and counts have twice the bytes. Tags 256 and 257 are the
// sides, 274 is the orientation. As in libtiff, the first of several pages counts, and the first of
// several entries with one tag; entries may be in any order, and numbers of any whole type. A
// number that does not fit into its entry is at the offset that the entry has instead.
ImageExtent size_of_tiff(HeaderBytes& header) {
  const bool is_big_endian = header.holds(0, "MM");
  const auto number = [&](std::uint64_t at, std::size_t bytes) { return header.number(at, bytes, is_big_endian); };
  const bool is_large = number(2, 2) == 43;
  const std::size_t offset_bytes = is_large ? 8 : 4;
  const std::uint64_t directory = number(is_large ? 8 : 4, offset_bytes);
  const std::uint64_t entries = number(directory, is_large ? 8 : 2);
  std::optional<std::uint64_t> width;
  std::optional<std::uint64_t> height;
  std::optional<std::uint64_t> orientation;
  std::uint64_t at = directory + (is_large ? 8 : 2);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(entries, 65535); ++i, at += 4 + 2 * offset_bytes) {
    const std::uint64_t tag = number(at, 2);
    auto* const found = tag == 256 ? &width : tag == 257 ? &height : tag == 274 ? &orientation : nullptr;
    if (found == nullptr || *found) continue;
    constexpr std::array<std::uint8_t, 18> kBytes{0, 1, 0, 2, 4, 0, 1, 0, 2, 4, 0, 0, 0, 0, 0, 0, 8, 8};  // by type
    const std::uint64_t type = number(at + 2, 2);
    const std::size_t bytes = type < kBytes.size() && number(at + 4, offset_bytes) == 1 ? kBytes[type] : 0;
    const std::uint64_t place = at + 4 + offset_bytes;
    *found = bytes == 0 ? 0 : number(bytes > offset_bytes ? number(place, offset_bytes) : place, bytes);
  }
  return turned(width.value_or(0), height.value_or(0),
                orientation <= 8U ? static_cast<int>(orientation.value_or(1)) : 1);
}

// The oldest header has 12 bytes and sides of 16 bits.
ImageExtent size_of_bmp(HeaderBytes& header) {
  const std::size_t side = header.little(14, 4) == 12 ? 2 : 4;
  const auto width = static_cast<std::int32_t>(header.little(18, side));
  const auto height = static_cast<std::int32_t>(header.little(18 + side, side));  // negative: rows from the top
  return turned(static_cast<std::uint64_t>(std::max(width, 0)),
                static_cast<std::uint64_t>(std::abs(std::int64_t{height})), 1);
}

// Two decimal numbers, with blanks and comments before each.
ImageExtent size_of_pnm(HeaderBytes& header) {
  std::uint64_t at = 2;
  const auto number = [&] {
    constexpr std::string_view kBlanks = " \t\r\n\v\f";
    const auto character = [&] { return static_cast<char>(header.big(at, 1)); };
    while (character() == '#' || kBlanks.find(character()) != std::string_view::npos) {
      if (character() == '#') {
        while (character() != '\n' && character() != '\r') ++at;
      }
      ++at;
    }
    std::uint64_t value = 0;
    for (; character() >= '0' && character() <= '9' && value < (std::uint64_t{1} << 32U); ++at) {
      value = value * 10 + static_cast<std::uint64_t>(character() - '0');
    }
    return value;
  };
  const std::uint64_t width = number();
  return turned(width, number(), 1);
}

// The channels are last where the shape is ambiguous.
ImageExtent size_of_npy(HeaderBytes& header) {
  constexpr std::size_t kLongestHeader = 65536 + 12;
  std::size_t begin = 0;
  const NpyArray array = parse_npy_header(header.at(0, kLongestHeader), begin);
  const auto is_channels = [](std::int64_t extent) { return extent == 1 || extent == 3; };
  const auto side = [&](std::size_t i) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(array.shape[i], 0));
  };
  if (array.dimensions == 2 || (array.dimensions == 3 && is_channels(array.shape[2])))
    return turned(side(1), side(0), 1);
  if (array.dimensions == 3 && is_channels(array.shape[0])) return turned(side(2), side(1), 1);
  throw SampleError("an array of " + array.shape_text() + " is no image");
}

}  // namespace

// Recognises the kind of file by content, not by name, as decoders do.
ImageExtent displayed_size(const OpenFile& file) {
  HeaderBytes header(file);
  if (header.holds(0, "\xFF\xD8\xFF")) return size_of_jpeg(header);
  if (header.holds(0, "\x89PNG\r\n\x1A\n")) return size_of_png(header);
  if (header.holds(0, "RIFF") && header.holds(8, "WEBP")) return size_of_webp(header);
  if (header.holds(0, {"II*\0", 4}) || header.holds(0, {"MM\0*", 4}) || header.holds(0, {"II+\0", 4}) ||
      header.holds(0, {"MM\0+", 4})) {
    return size_of_tiff(header);
  }
  if (header.holds(0, "BM")) return size_of_bmp(header);
  const HeaderPart start = header.at(0, 2);
  if (start.size() == 2 && start[0] == std::byte{'P'} && start[1] >= std::byte{'1'} && start[1] <= std::byte{'6'}) {
    return size_of_pnm(header);
  }
  if (starts_as_npy(header.at(0, 16))) return size_of_npy(header);
  throw SampleError("its first bytes are of no kind of image whose size can be read (" + std::string(kImageKinds) +
                    ")" + nature_as_cause(header.at(0, 1024)));
}

}  // namespace forebay::data
