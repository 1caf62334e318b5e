#pragma once

#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <forebay/error.hpp>

namespace forebay::make {

// The most memory that libtiff may allocate at once; an image that needs more is refused. Rows and
// strip tables are far smaller.
inline constexpr tmsize_t kMostTiffBytes = tmsize_t{256} << 20;

// A file in memory as a source for libtiff. Collects libtiff's messages about it. Belongs to one
// thread.
class TiffSource {
 public:
  TiffSource() = default;
  TiffSource(const TiffSource&) = delete;
  TiffSource& operator=(const TiffSource&) = delete;

  // Throws SampleError if it is not a TIFF.
  [[nodiscard]] TIFF* open(std::span<const std::byte> bytes) {
    bytes_ = bytes;
    at_ = 0;
    complaint_[0] = '\0';
    remark_[0] = '\0';
    decoding_ = false;
    const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                   TIFFOpenOptionsFree);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostTiffBytes);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, this);
    const auto no_write = [](thandle_t, void*, tmsize_t) -> tmsize_t { return 0; };
    const auto close = [](thandle_t) { return 0; };
    // "m": use the functions below instead of a memory mapping.
    TIFF* const tiff =
        TIFFClientOpenExt("the file", "rm", this, read, no_write, seek, close, size, nullptr, nullptr, options.get());
    if (tiff != nullptr && has_complaint()) TIFFClose(tiff);
    if (tiff == nullptr || has_complaint()) throw failure();
    return tiff;
  }

  // From now on a warning means that libtiff makes up pixels.
  void begin_decoding() noexcept { decoding_ = true; }
  [[nodiscard]] bool has_complaint() const noexcept { return complaint_[0] != '\0'; }
  // Also used for lack of memory, because libtiff reports damaged sizes and refused memory in the
  // same words.
  [[nodiscard]] SampleError failure() const {
    const std::string said(has_complaint() ? complaint_.data() : remark_.data());
    return SampleError("TIFF: damaged (libtiff: " + (said.empty() ? "no reason given" : said) + ")");
  }

 private:
  using Text = std::array<char, 200>;

  static TiffSource& of(void* pointer) noexcept { return *static_cast<TiffSource*>(pointer); }

  static tmsize_t read(thandle_t handle, void* to, tmsize_t wanted) {
    TiffSource& self = of(handle);
    if (wanted <= 0 || self.at_ >= self.bytes_.size()) return 0;
    const std::size_t count =
        std::min(static_cast<std::size_t>(wanted), self.bytes_.size() - static_cast<std::size_t>(self.at_));
    std::memcpy(to, self.bytes_.data() + self.at_, count);
    self.at_ += count;
    return static_cast<tmsize_t>(count);
  }
  static toff_t seek(thandle_t handle, toff_t offset, int from) {
    TiffSource& self = of(handle);
    // Offsets are unsigned, so negative relative ones wrap around.
    self.at_ = from == SEEK_CUR ? self.at_ + offset : from == SEEK_END ? self.bytes_.size() + offset : offset;
    return self.at_;
  }
  static toff_t size(thandle_t handle) { return of(handle).bytes_.size(); }

  // Before the pixels, errors are about tags that libtiff ignores or makes up. That is harmless if
  // no pixel depends on the tag. While pixels are read, an error means that some are made up.
  static int on_error(TIFF* /*tiff*/, void* pointer, const char* /*module*/, const char* format, va_list values) {
    TiffSource& self = of(pointer);
    const Text text = formatted(format, values);
    self.hear(text, self.decoding_ || !is_of_spare_tag(text.data()));
    return 1;
  }
  // After a warning about a tag that pixels need, the tag has a usable value nevertheless. There
  // are two exceptions: the file ends before the value, or the tag is the palette, without which
  // libtiff would show another kind of image. While pixels are read, a warning is damage unless it
  // is about an old dialect of LZW.
  static int on_warning(TIFF* /*tiff*/, void* pointer, const char* /*module*/, const char* format, va_list values) {
    TiffSource& self = of(pointer);
    const Text text = formatted(format, values);
    const std::string_view message = text.data();
    self.hear(text, self.decoding_ ? !message.starts_with("Old-style LZW")
                                   : message.find("\"ColorMap\"") != std::string_view::npos ||
                                         (message.starts_with("IO error") && !is_of_spare_tag(message)));
    return 1;
  }

  static Text formatted(const char* format, va_list values) {
    Text text{};
    std::vsnprintf(text.data(), text.size(), format, values);
    return text;
  }

  void hear(const Text& text, bool is_damage) noexcept {
    if (remark_[0] == '\0') remark_ = text;
    if (is_damage && !has_complaint()) complaint_ = text;
  }

  // Whether a message names a tag on which no pixel depends. The message about a tag that libtiff
  // does not know names none, but is recognised as such.
  static bool is_of_spare_tag(std::string_view message) noexcept {
    if (message.starts_with("Defined set_field_type of custom tag")) return true;
    const auto open = message.find('"');
    const auto close = open == std::string_view::npos ? open : message.find('"', open + 1);
    if (close == std::string_view::npos) return false;
    const std::string_view name = message.substr(open + 1, close - open - 1);
    std::string_view needed =
        "ImageWidth ImageLength BitsPerSample Compression PhotometricInterpretation FillOrder StripOffsets "
        "SamplesPerPixel RowsPerStrip StripByteCounts PlanarConfiguration Group3Options Group4Options ColorMap "
        "TileWidth TileLength TileOffsets TileByteCounts InkSet ExtraSamples SampleFormat JPEGTables "
        "YCbCrCoefficients YCbCrSubsampling ReferenceBlackWhite Predictor Orientation JpegInterchangeFormat "
        "JpegProc";
    while (!needed.empty()) {
      const std::string_view tag = needed.substr(0, needed.find(' '));
      if (name.starts_with(tag)) return false;
      needed.remove_prefix(std::min(tag.size() + 1, needed.size()));
    }
    return true;
  }

  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  bool decoding_ = false;
  Text complaint_{};  // the first message that means damage
  Text remark_{};     // the first message of any kind
};

}  // namespace forebay::make
