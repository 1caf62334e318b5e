// Netpbm files: PBM, PGM and PPM, binary (P4, P5, P6) or as text (P1, P2, P3). Only the first image
// of a file is read. One codec per decoder thread.
//
// open() reads the header, which is text in all kinds. for_each_value() then visits all values in
// order, whichever way they are stored. Three functions turn them into 8-bit colours, indices of a
// mask or, where the largest value is above 255, wide values. The specification is Netpbm's manual
// (netpbm.sourceforge.net).

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>

#include <forebay/error.hpp>

#include "codecs.hpp"

namespace forebay::make {
namespace {

bool starts_as_pnm(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < 3 || bytes[0] != std::byte{'P'}) return false;
  const auto kind = std::to_integer<char>(bytes[1]);
  const auto next = std::to_integer<unsigned char>(bytes[2]);
  const bool is_kind = (kind >= '1' && kind <= '7') || kind == 'f' || kind == 'F';
  return is_kind && (std::isspace(next) != 0 || next == '#');
}

class PnmCodec final : public Codec {
 public:
  CodecHeader open(std::span<const std::byte> bytes) override {
    bytes_ = bytes;
    at_ = 2;
    const auto kind = std::to_integer<char>(bytes[1]);
    if (kind == '7') throw refusal("a PAM file (P7); P1 to P6 are read");
    if (kind == 'f' || kind == 'F') throw refusal("numbers of floating point (PFM); store them as an .npy file");
    is_text_ = kind <= '3';
    is_bits_ = kind == '1' || kind == '4';
    channels_ = kind == '3' || kind == '6' ? 3 : 1;
    width_ = header_number("width");
    height_ = header_number("height");
    most_ = is_bits_ ? 1 : header_number("largest value");
    if (most_ > kMostValue) throw refusal("values up to " + std::to_string(most_) + "; 65535 is the format's limit");
    // Exactly one blank ends the header.
    if (at_ >= bytes_.size() || !is_blank(at_)) throw ends_early();
    ++at_;
    return {.width = static_cast<std::int32_t>(width_),
            .height = static_cast<std::int32_t>(height_),
            .wide_channels = most_ > kMostByte ? channels_ : 0};
  }

  // Scaled as Pillow does.
  void decode(std::span<std::uint8_t> rgb) override {
    const auto scale = static_cast<double>(kMostByte);
    const auto most = static_cast<double>(most_);
    std::uint8_t* to = rgb.data();
    for_each_value([&](std::uint32_t value) {
      const auto shown = most_ == kMostByte
                             ? static_cast<std::uint8_t>(value)
                             : static_cast<std::uint8_t>(std::nearbyint(static_cast<double>(value) / most * scale));
      to = std::fill_n(to, channels_ == 3 ? 1 : 3, shown);
    });
  }

  void decode_indices(std::span<std::uint8_t> indices) override {
    if (channels_ != 1 || most_ > kMostByte) {
      throw SampleError("a mask must have one channel of at most 8 bits; this PPM has " + std::to_string(channels_) +
                        " with values up to " + std::to_string(most_));
    }
    std::uint8_t* to = indices.data();
    for_each_value([&](std::uint32_t value) { *to++ = static_cast<std::uint8_t>(value); });
  }

  void decode_wide(std::span<float> values) override {
    float* to = values.data();
    for_each_value([&](std::uint32_t value) { *to++ = static_cast<float>(value); });
  }

 private:
  static constexpr std::uint32_t kMostByte = 255;
  static constexpr std::uint32_t kMostValue = 65535;

  [[nodiscard]] static SampleError refusal(const std::string& what) { return SampleError("PPM: " + what); }
  [[nodiscard]] static SampleError ends_early() { return refusal("the file ends early, probably cut short"); }
  [[nodiscard]] bool is_blank(std::size_t at) const noexcept {
    return std::isspace(std::to_integer<unsigned char>(bytes_[at])) != 0;
  }
  [[nodiscard]] bool is_digit(std::size_t at) const noexcept {
    return std::isdigit(std::to_integer<unsigned char>(bytes_[at])) != 0;
  }

  // Skips blanks, and comments up to the end of their line.
  void skip_blanks() noexcept {
    for (; at_ < bytes_.size() && (is_blank(at_) || bytes_[at_] == std::byte{'#'}); ++at_) {
      if (bytes_[at_] != std::byte{'#'}) continue;
      while (at_ + 1 < bytes_.size() && bytes_[at_ + 1] != std::byte{'\n'}) ++at_;
    }
  }

  // Reads a decimal number. Throws SampleError if there is none, or if it exceeds 2^31 - 1, before
  // it can overflow.
  std::uint32_t number() {
    skip_blanks();
    if (at_ >= bytes_.size()) throw ends_early();
    if (!is_digit(at_)) throw refusal("damaged: no number at byte " + std::to_string(at_));
    std::uint64_t value = 0;
    for (; at_ < bytes_.size() && is_digit(at_); ++at_) {
      value = 10 * value + std::to_integer<unsigned>(bytes_[at_]) - '0';
      if (value > std::numeric_limits<std::int32_t>::max()) throw refusal("damaged: a number without end");
    }
    // A blank follows every number, even the last; without it the file may have been cut within the
    // number.
    if (at_ >= bytes_.size()) {
      throw refusal("the file ends with a digit, so its last number may be cut short; if it is whole, add a line end");
    }
    return static_cast<std::uint32_t>(value);
  }
  std::uint32_t header_number(const char* name) {
    const std::uint32_t value = number();
    if (value == 0) throw refusal(std::string("damaged: its ") + name + " is 0");
    return value;
  }

  // Visits all values in order, 0 for black (PBM stores 1 for black). Throws SampleError if the
  // values end early or one is too large.
  template <typename Visit>
  void for_each_value(const Visit& visit) {
    const auto pixels = std::uint64_t{width_} * height_;
    if (is_text_) return for_each_number(pixels * static_cast<unsigned>(channels_), visit);
    const std::uint64_t row_bytes =
        is_bits_ ? (width_ + 7) / 8 : std::uint64_t{width_} * static_cast<unsigned>(channels_) * value_bytes();
    const auto raster = bytes_.subspan(at_);
    if (row_bytes * height_ > raster.size()) throw ends_early();
    const std::byte* from = raster.data();
    if (!is_bits_) return for_each_stored(from, pixels * static_cast<unsigned>(channels_), visit);
    for (std::uint32_t y = 0; y < height_; ++y, from += row_bytes) {
      for (std::uint32_t x = 0; x < width_; ++x) {
        const auto byte = std::to_integer<unsigned>(from[x / 8]);
        visit((~byte >> (7 - x % 8)) & 1U);
      }
    }
  }

  [[nodiscard]] unsigned value_bytes() const noexcept { return most_ > kMostByte ? 2 : 1; }

  // 16-bit values are big-endian.
  template <typename Visit>
  void for_each_stored(const std::byte* from, std::uint64_t count, const Visit& visit) const {
    const bool is_wide = value_bytes() == 2;
    for (std::uint64_t i = 0; i < count; ++i) {
      auto value = std::to_integer<std::uint32_t>(*from++);
      if (is_wide) value = value << 8U | std::to_integer<std::uint32_t>(*from++);
      visit(checked(value));
    }
  }

  // Bits in a text file need no blanks between them.
  template <typename Visit>
  void for_each_number(std::uint64_t count, const Visit& visit) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!is_bits_) {
        visit(checked(number()));
        continue;
      }
      skip_blanks();
      if (at_ >= bytes_.size()) throw ends_early();
      if (bytes_[at_] != std::byte{'0'} && bytes_[at_] != std::byte{'1'}) {
        throw refusal("damaged: no bit at byte " + std::to_string(at_));
      }
      visit(bytes_[at_++] == std::byte{'0'} ? 1U : 0U);
    }
  }

  // A value above the stated maximum would be brighter than white.
  [[nodiscard]] std::uint32_t checked(std::uint32_t value) const {
    if (value > most_) {
      throw refusal("damaged: a value of " + std::to_string(value) + ", above its largest, " + std::to_string(most_));
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::uint32_t width_ = 0;
  std::uint32_t height_ = 0;
  std::uint32_t most_ = 0;  // the largest value that the header allows
  int channels_ = 1;
  bool is_text_ = false;
  bool is_bits_ = false;  // PBM: one bit per pixel, 1 for black
};

}  // namespace

const CodecKind codecs::pnm{
    .matches = starts_as_pnm, .make = [] { return std::unique_ptr<Codec>(new PnmCodec); }, .library = {}};

}  // namespace forebay::make
