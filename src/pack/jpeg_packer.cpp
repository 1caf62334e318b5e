// Packs a JPEG file: decodes its coefficients without loss, codes them anew with the pack's tables,
// so that they decode faster, and keeps the header and whatever follows the scan. Then it unpacks
// the result and compares it with the file, byte by byte. A file for which that fails (odd padding,
// misplaced restart markers, a progressive scan) is not packed but stored as it is. One packer per
// thread, as in `forebay pack`; its memory is reused from file to file.

#include "jpeg_packer.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <forebay/error.hpp>

#include "byte_reader.hpp"
#include "header_parts.hpp"
#include "jpeg_streams.hpp"
#include "packed_coefficients.hpp"
#include "scan_writer.hpp"

namespace forebay::pack {
class JpegPacker::Impl {
 public:
  explicit Impl(PackTables tables) : tables_(std::move(tables)) {}

  [[nodiscard]] std::optional<std::vector<std::byte>> pack(std::span<const std::byte> file) {
    const PlainHeader* const header = streams_.read(file);
    if (header == nullptr || !fits(file, *header)) return std::nullopt;
    if (!write_tiles(*header)) return std::nullopt;
    // First without a tail, as if only an end-of-image marker followed the scan, which is so for
    // most files. Rebuilding shows how long the scan is. If anything else follows it, that becomes
    // the tail.
    std::vector<std::byte> packed = assemble(file, *header, std::nullopt);
    std::vector<std::byte> rebuilt;
    if (!rebuild(packed, rebuilt)) return std::nullopt;
    const std::size_t size = rebuilt.size() - packed_.tail().size();
    if (size > file.size() || !std::ranges::equal(std::span(rebuilt).first(size), file.first(size)))
      return std::nullopt;
    const auto tail = file.subspan(size);
    if (std::ranges::equal(tail, packed_.tail())) return packed;
    packed = assemble(file, *header, tail);
    if (!rebuild(packed, rebuilt) || !std::ranges::equal(rebuilt, file)) return std::nullopt;
    return packed;
  }

  [[nodiscard]] std::vector<std::byte> unpack(std::span<const std::byte> packed) {
    std::vector<std::byte> file;
    if (!rebuild(packed, file)) throw SampleError("damaged: a packed JPEG that no JPEG file gives");
    return file;
  }

 private:
  // Whether the numbers of the packed format are large enough for this file.
  [[nodiscard]] static bool fits(std::span<const std::byte> file, const PlainHeader& header) noexcept {
    return header.size <= HeaderParts::kLongestHeader && file.size() <= std::numeric_limits<std::uint32_t>::max();
  }

  // Returns false if the codes of the file's header lack a word. Throws SampleError for any other
  // damage.
  [[nodiscard]] bool rebuild(std::span<const std::byte> packed, std::vector<std::byte>& file) {
    packed_.open(packed, tables_);
    const auto header = PlainHeader::read(packed_.header());
    if (!header) return false;
    const jpeg::JpegFrame& frame = header->frame;
    const auto bytes = packed_.header().first(header->size);
    file.reserve(packed.size() + packed.size() / 4);
    file.assign(bytes.begin(), bytes.end());
    // The scan is written with the codes of the file's own header, so equal coefficients give equal
    // bits.
    coefficients_.open(packed_, frame);
    ScanWriter scan(*header, file);
    for (std::int32_t y = 0; y < frame.mcus_down; ++y) {
      row_.reset(frame, frame.components, {0, 0, frame.mcus_across, frame.mcus_down});
      if (!coefficients_.read(y, row_) || !scan.add(row_)) return false;
    }
    scan.finish();
    put_bytes(file, packed_.tail());
    return true;
  }

  // Codes all tiles with the set that takes the fewest bits. Returns false if a code lacks a word.
  [[nodiscard]] bool write_tiles(const PlainHeader& header) {
    const TileStreams& streams = streams_.streams();
    set_ = 0;
    double fewest = 0;
    for (std::size_t i = 0; i < tables_.sets(); ++i) {
      const double bits = bits_of(streams.counts(), tables_.set(i));
      if (i > 0 && bits >= fewest) continue;
      fewest = bits;
      set_ = i;
    }
    lengths_.clear();
    tiles_.clear();
    lanes_ = lanes_for(header.frame);
    for (std::size_t i = 0; i < streams.grid().size(); ++i) {
      const std::size_t begin = tiles_.size();
      if (!write_tile(streams.tile(i), tables_.set(set_), lanes_, tiles_)) return false;
      lengths_.push_back(static_cast<std::uint32_t>(tiles_.size() - begin));
    }
    return true;
  }

  // Without a tail, as if only the end-of-image marker followed the scan.
  [[nodiscard]] std::vector<std::byte> assemble(std::span<const std::byte> file, const PlainHeader& header,
                                                std::optional<std::span<const std::byte>> tail) const {
    const TileGrid& grid = streams_.streams().grid();
    std::vector<std::byte> out;
    out.reserve(tiles_.size() + header.size + 64);
    const unsigned flags = (tail ? PackedJpeg::kHasTail : 0U) | (lanes_ > 1 ? PackedJpeg::kHasLanes : 0U);
    put_prefix(out, {.key = tables_.key(),
                     .set = static_cast<std::uint8_t>(set_),
                     .flags = static_cast<std::uint8_t>(flags),
                     .tile_width = static_cast<std::uint8_t>(grid.width),
                     .tile_height = static_cast<std::uint8_t>(grid.height)});
    tables_.header_parts().write(file, header, out);
    if (tail) {
      put_varint(out, static_cast<std::uint32_t>(tail->size()));
      put_bytes(out, *tail);
    }
    for (const std::uint32_t length : lengths_) put_varint(out, length);
    put_bytes(out, tiles_);
    set_checksum(out);
    return out;
  }

  PackTables tables_;
  JpegStreams streams_;
  PackedJpeg packed_;
  PackedCoefficients coefficients_;
  jpeg::CoefficientRow row_;
  std::vector<std::byte> tiles_;  // of the current file
  std::vector<std::uint32_t> lengths_;
  std::size_t set_ = 0;
  std::size_t lanes_ = 1;
};

JpegPacker::JpegPacker(PackTables tables) : impl_(std::make_unique<Impl>(std::move(tables))) {}
JpegPacker::JpegPacker(JpegPacker&&) noexcept = default;
JpegPacker& JpegPacker::operator=(JpegPacker&&) noexcept = default;
JpegPacker::~JpegPacker() = default;

std::optional<std::vector<std::byte>> JpegPacker::pack(std::span<const std::byte> file) { return impl_->pack(file); }
std::vector<std::byte> JpegPacker::unpack(std::span<const std::byte> packed) { return impl_->unpack(packed); }

}  // namespace forebay::pack
