// Uncompressed Windows and OS/2 bitmaps, read without a library. One codec per decoder thread
// (image_decoder.cpp). open() reads the header and refuses kinds that are not supported, with
// advice; then decode() or decode_indices() goes through the rows.
//
// A file has a file header of 14 bytes and a bitmap header, whose length (one of eight) says its
// version. Colour masks and a palette may follow. Rows are padded to four bytes and stored from the
// bottom unless the height is negative. The pixels equal Pillow's.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <string>

#include <forebay/error.hpp>

#include "codecs.hpp"

namespace forebay::make {
namespace {

constexpr std::size_t kFileHeader = 14;

// Little-endian. Bytes past the end count as 0, because callers check that a number makes sense.
std::uint32_t bmp_number(std::span<const std::byte> bytes, std::size_t at, std::size_t size) noexcept {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < size && at + i < bytes.size(); ++i) {
    number |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
  }
  return number;
}

// Plain text may begin with "BM" too, so the length of the bitmap header is checked as well.
bool starts_as_bmp(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < kFileHeader + 4 || bytes[0] != std::byte{'B'} || bytes[1] != std::byte{'M'}) return false;
  constexpr std::array kHeaders{12U, 16U, 40U, 52U, 56U, 64U, 108U, 124U};
  return std::ranges::find(kHeaders, bmp_number(bytes, kFileHeader, 4)) != kHeaders.end();
}

// One colour channel of 16- and 32-bit pixels.
struct BmpChannel {
  std::uint32_t mask = 0;

  [[nodiscard]] bool is_contiguous() const noexcept {
    const std::uint32_t bits = mask == 0 ? 0 : mask >> std::countr_zero(mask);
    return mask != 0 && (bits & (bits + 1)) == 0;
  }
  // Scaled to 0..255 as Pillow does.
  [[nodiscard]] std::uint8_t of(std::uint32_t pixel) const noexcept {
    const auto shift = std::countr_zero(mask);
    return static_cast<std::uint8_t>(std::uint64_t{(pixel & mask) >> shift} * 255 / (mask >> shift));
  }
};

class BmpCodec final : public Codec {
 public:
  CodecHeader open(std::span<const std::byte> bytes) override {
    bytes_ = bytes;
    header_bytes_ = number(kFileHeader, 4);
    if (header_bytes_ > bytes.size() - kFileHeader) throw ends_early();
    const bool is_core = header_bytes_ == 12;
    const std::size_t side = is_core ? 2 : 4;
    // The offsets are those of BITMAPCOREHEADER (12 bytes, 16-bit sides), and of BITMAPINFOHEADER
    // and its longer successors. A negative height means that rows are stored from the top.
    const auto across = static_cast<std::int32_t>(number(18, side));
    const auto down = static_cast<std::int32_t>(number(18 + side, side));
    if (across < 1 || down == 0 || down == std::numeric_limits<std::int32_t>::min()) {
      throw refusal("damaged: " + std::to_string(across) + " x " + std::to_string(down) + " pixels");
    }
    width_ = across;
    height_ = std::abs(down);
    is_top_down_ = down < 0;
    bits_ = number(20 + 2 * side, 2);
    compression_ = is_core || header_bytes_ < 20 ? 0 : number(30, 4);
    first_ = number(10, 4);
    check_kind();
    find_colours(is_core);
    return {.width = width_, .height = height_};
  }

  void decode(std::span<std::uint8_t> rgb) override {
    std::uint8_t* to = rgb.data();
    for_each_row([&](const std::uint8_t* row) {
      for (std::int32_t x = 0; x < width_; ++x, to += 3) put_pixel(row, x, to);
    });
  }

  void decode_indices(std::span<std::uint8_t> indices) override {
    if (bits_ > 8) {
      throw SampleError("a mask must have one channel of at most 8 bits; this BMP has " + std::to_string(bits_) +
                        " bits per pixel, red, green and blue");
    }
    std::uint8_t* to = indices.data();
    for_each_row([&](const std::uint8_t* row) {
      for (std::int32_t x = 0; x < width_; ++x) *to++ = index_of(row, x);
    });
  }

 private:
  [[nodiscard]] static SampleError refusal(const std::string& what) { return SampleError("BMP: " + what); }
  [[nodiscard]] static SampleError ends_early() { return refusal("the file ends early, probably cut short"); }
  [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t size) const noexcept {
    return bmp_number(bytes_, at, size);
  }
  [[nodiscard]] bool has_masks() const noexcept {
    return compression_ == kBitFields || compression_ == kAlphaBitFields;
  }

  // Run-length compression is too rare to be worth a decoder; the message says what to do instead.
  void check_kind() const {
    if (compression_ == 1 || compression_ == 2) {
      throw refusal("compressed by run lengths (RLE), which is not read; store it uncompressed or as PNG");
    }
    if (compression_ != 0 && !has_masks()) {
      throw refusal("compression " + std::to_string(compression_) + " is not read; store it uncompressed or as PNG");
    }
    constexpr std::array kBits{1U, 4U, 8U, 16U, 24U, 32U};
    if (std::ranges::find(kBits, bits_) == kBits.end() || (has_masks() && bits_ != 16 && bits_ != 32)) {
      throw refusal(std::to_string(bits_) + " bits per pixel; 1, 4, 8, 16, 24 and 32 are read");
    }
  }

  // The defaults without masks: 5-5-5 for 16 bits, 8-8-8 with an unused byte for 32.
  void find_colours(bool is_core) {
    std::size_t behind = kFileHeader + header_bytes_;
    channels_ = bits_ == 16 ? std::array{BmpChannel{0x7c00}, BmpChannel{0x3e0}, BmpChannel{0x1f}}
                            : std::array{BmpChannel{0xff0000}, BmpChannel{0xff00}, BmpChannel{0xff}};
    if (has_masks()) {
      // The masks are part of the header, or follow it if it is the oldest kind that can have
      // masks.
      constexpr std::size_t kMasksAt = kFileHeader + 40;
      if (header_bytes_ == 40) behind += compression_ == kAlphaBitFields ? 16 : 12;
      if (behind > bytes_.size()) throw ends_early();
      for (std::size_t i = 0; i < channels_.size(); ++i) {
        channels_[i] = {number(kMasksAt + 4 * i, 4)};
        if (!channels_[i].is_contiguous()) throw refusal("damaged: a colour without bits, or with gaps between them");
      }
    }
    colours_ = 0;
    if (bits_ <= 8) read_palette(behind, is_core ? 3 : 4);
    if (first_ < behind) throw refusal("damaged: its pixels begin within its header");
  }

  // Entries are blue, green, red and, except with the oldest header, an unused fourth byte.
  void read_palette(std::size_t& at, std::size_t entry) {
    const std::uint32_t most = 1U << bits_;
    const std::uint32_t used = entry == 3 || header_bytes_ < 36 ? 0 : number(46, 4);
    colours_ = used == 0 ? most : std::min(used, most);
    if (colours_ * entry > bytes_.size() - at) throw ends_early();
    for (std::size_t i = 0; i < colours_; ++i, at += entry) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        palette_[i][channel] = std::to_integer<std::uint8_t>(bytes_[at + 2 - channel]);
      }
    }
  }

  // Visits rows from top to bottom, whatever their order in the file.
  template <typename Visit>
  void for_each_row(const Visit& visit) const {
    const std::uint64_t row_bytes = (std::uint64_t{static_cast<std::uint32_t>(width_)} * bits_ + 31) / 32 * 4;
    const auto rows = static_cast<std::uint64_t>(height_);
    if (first_ > bytes_.size() || row_bytes * rows > bytes_.size() - first_) throw ends_early();
    const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes_.data()) + first_;
    for (std::uint64_t y = 0; y < rows; ++y) visit(begin + row_bytes * (is_top_down_ ? y : rows - 1 - y));
  }

  [[nodiscard]] std::uint8_t index_of(const std::uint8_t* row, std::int32_t x) const {
    const auto bit = static_cast<std::size_t>(x) * bits_;
    const std::size_t above = 8 - bits_ - bit % 8;
    const auto index = static_cast<std::uint8_t>(row[bit / 8] >> above & ((1U << bits_) - 1));
    if (index >= colours_) {
      throw refusal("damaged: index " + std::to_string(index) + " of a palette of " + std::to_string(colours_));
    }
    return index;
  }

  void put_pixel(const std::uint8_t* row, std::int32_t x, std::uint8_t* to) const {
    if (bits_ <= 8) {
      std::ranges::copy(palette_[index_of(row, x)], to);
      return;
    }
    const std::size_t size = bits_ / 8;
    const std::uint8_t* const from = row + static_cast<std::size_t>(x) * size;
    std::uint32_t pixel = 0;
    for (std::size_t i = 0; i < size; ++i) pixel |= std::uint32_t{from[i]} << (8 * i);
    for (std::size_t channel = 0; channel < 3; ++channel) to[channel] = channels_[channel].of(pixel);
  }

  static constexpr std::uint32_t kBitFields = 3;
  static constexpr std::uint32_t kAlphaBitFields = 6;

  std::span<const std::byte> bytes_;
  std::size_t header_bytes_ = 0;
  std::size_t first_ = 0;  // offset of the pixels in the file
  std::int32_t width_ = 0;
  std::int32_t height_ = 0;
  std::uint32_t bits_ = 0;  // per pixel
  std::uint32_t compression_ = 0;
  bool is_top_down_ = false;
  std::uint32_t colours_ = 0;  // entries of the palette
  std::array<std::array<std::uint8_t, 3>, 256> palette_{};
  std::array<BmpChannel, 3> channels_{};  // red, green, blue
};

}  // namespace

const CodecKind codecs::bmp{
    .matches = starts_as_bmp, .make = [] { return std::unique_ptr<Codec>(new BmpCodec); }, .library = {}};

}  // namespace forebay::make
