// Reads the header of a JPEG file just far enough to know its scan, and accepts only the plain
// kind: sequential, Huffman-coded, 8 bits, one scan with all components in the order of the frame.
// Anything else, however valid, gives none, and the file is not packed. Marker codes are those of
// ITU-T T.81, table B.1. For packing and for rebuilding a file; pure, any thread.

#include "plain_header.hpp"

#include <algorithm>

namespace forebay::pack {
namespace {

constexpr unsigned kBaseline = 0xc0;
constexpr unsigned kExtended = 0xc1;
constexpr unsigned kHuffmanTables = 0xc4;
constexpr unsigned kStartOfImage = 0xd8;
constexpr unsigned kStartOfScan = 0xda;
constexpr unsigned kQuantisers = 0xdb;
constexpr unsigned kRestartInterval = 0xdd;
constexpr unsigned kFirstApplication = 0xe0;
constexpr unsigned kLastApplication = 0xef;
constexpr unsigned kComment = 0xfe;
constexpr std::size_t kTables = 4;
constexpr int kMostSampling = 4;

using Bytes = std::span<const std::byte>;

unsigned byte_at(Bytes bytes, std::size_t at) noexcept { return std::to_integer<unsigned>(bytes[at]); }
unsigned number_at(Bytes bytes, std::size_t at) noexcept { return byte_at(bytes, at) << 8U | byte_at(bytes, at + 1); }

class HeaderReader {
 public:
  explicit HeaderReader(Bytes file) : file_(file) {}

  // Reads segment after segment up to the start of the scan. 0xff may be repeated as fill before a
  // marker's code (T.81, B.1.1.2); such bytes belong to the segment that follows.
  [[nodiscard]] bool read() {
    if (file_.size() < 4 || byte_at(file_, 0) != 0xff || byte_at(file_, 1) != kStartOfImage) return false;
    std::size_t at = 2;
    for (;;) {
      const std::size_t begin = at;
      if (at + 4 > file_.size() || byte_at(file_, at) != 0xff) return false;
      while (at + 4 < file_.size() && byte_at(file_, at + 1) == 0xff) ++at;
      const unsigned marker = byte_at(file_, at + 1);
      const std::size_t length = number_at(file_, at + 2);
      if (length < 2 || at + 2 + length > file_.size()) return false;
      const Bytes content = file_.subspan(at + 4, length - 2);
      header_.segments.push_back(begin);
      at += 2 + length;
      if (marker == kStartOfScan) {
        header_.size = at;
        return take_scan(content);
      }
      if (marker == kBaseline || marker == kExtended) header_.frame_segment = begin;
      if (!take(marker, content)) return false;
    }
  }

  [[nodiscard]] PlainHeader take_header() { return std::move(header_); }

 private:
  bool take(unsigned marker, Bytes content) {
    if (marker == kBaseline || marker == kExtended) return take_frame(content);
    if (marker == kHuffmanTables) return take_tables(content);
    if (marker == kRestartInterval) {
      if (content.size() != 2) return false;
      header_.restart_interval = number_at(content, 0);
      return true;
    }
    // Of all other segments only those of applications, comments and quantisers are expected.
    return marker == kQuantisers || marker == kComment || (marker >= kFirstApplication && marker <= kLastApplication);
  }

  // Precision, height, width, then for each component its id, sampling factors and quantiser (T.81,
  // B.2.2). A height of 0 would be stated later in the file, in a DNL segment.
  bool take_frame(Bytes content) {
    jpeg::JpegFrame& frame = header_.frame;
    if (has_frame_ || content.size() < 6 || byte_at(content, 0) != 8) return false;
    has_frame_ = true;
    frame.height = static_cast<std::int32_t>(number_at(content, 1));
    frame.width = static_cast<std::int32_t>(number_at(content, 3));
    frame.components = byte_at(content, 5);
    if (frame.height == 0 || frame.width == 0 || (frame.components != 1 && frame.components != 3)) return false;
    if (content.size() != 6 + 3 * frame.components) return false;
    frame.colour = frame.components == 1 ? jpeg::JpegColour::grey : jpeg::JpegColour::ycbcr;
    for (std::size_t k = 0; k < frame.components; ++k) {
      const unsigned sampling = byte_at(content, 7 + 3 * k);
      jpeg::JpegComponent& component = frame.component[k];
      component.h = static_cast<std::int32_t>(sampling >> 4U);
      component.v = static_cast<std::int32_t>(sampling & 15U);
      if (component.h < 1 || component.h > kMostSampling || component.v < 1 || component.v > kMostSampling)
        return false;
      ids_[k] = byte_at(content, 6 + 3 * k);
      if (frame.components == 1) component.h = component.v = 1;
    }
    frame.complete();
    return true;
  }

  // Class and number in one byte, 16 counts, then the symbols (T.81, B.2.4.2). A segment may hold
  // several tables.
  bool take_tables(Bytes content) {
    while (!content.empty()) {
      if (content.size() < 17) return false;
      const unsigned which = byte_at(content, 0);
      if ((which & 0xefU) >= kTables) return false;
      jpeg::HuffmanCode& code = (which < 0x10 ? dc_ : ac_)[which & 3U];
      code = {};
      std::size_t symbols = 0;
      for (std::size_t length = 1; length <= jpeg::HuffmanCode::kLongest; ++length) {
        code.counts[length] = std::to_integer<std::uint8_t>(content[length]);
        symbols += code.counts[length];
      }
      if (symbols > jpeg::HuffmanCode::kMost || content.size() < 17 + symbols) return false;
      for (std::size_t i = 0; i < symbols; ++i) code.symbols[i] = std::to_integer<std::uint8_t>(content[17 + i]);
      (which < 0x10 ? has_dc_ : has_ac_)[which & 3U] = true;
      content = content.subspan(17 + symbols);
    }
    return true;
  }

  // Accepts all components in the order of the frame, with whole coefficients.
  bool take_scan(Bytes content) {
    const std::size_t components = header_.frame.components;
    if (!has_frame_ || content.size() != 4 + 2 * components || byte_at(content, 0) != components) return false;
    for (std::size_t k = 0; k < components; ++k) {
      const unsigned tables = byte_at(content, 2 + 2 * k);
      const std::size_t dc = tables >> 4U;
      const std::size_t ac = tables & 15U;
      if (byte_at(content, 1 + 2 * k) != ids_[k] || dc >= kTables || ac >= kTables) return false;
      if (!has_dc_[dc] || !has_ac_[ac]) return false;
      header_.codes[k] = {dc_[dc], ac_[ac]};
    }
    // Spectral selection 0 to 63 and no successive approximation, as in every sequential scan.
    const Bytes rest = content.last(3);
    return byte_at(rest, 0) == 0 && byte_at(rest, 1) == jpeg::kBlockSize - 1 && byte_at(rest, 2) == 0;
  }

  Bytes file_;
  PlainHeader header_;
  bool has_frame_ = false;
  std::array<unsigned, jpeg::JpegFrame::kMostComponents> ids_{};
  std::array<jpeg::HuffmanCode, kTables> dc_{};
  std::array<jpeg::HuffmanCode, kTables> ac_{};
  std::array<bool, kTables> has_dc_{};
  std::array<bool, kTables> has_ac_{};
};

}  // namespace

std::optional<PlainHeader> PlainHeader::read(std::span<const std::byte> file) {
  HeaderReader reader(file);
  if (!reader.read()) return std::nullopt;
  return reader.take_header();
}

}  // namespace forebay::pack
