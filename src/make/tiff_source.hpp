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

// The most memory that libtiff may request at once; an image that needs more is refused. Rows and tables of strips are
// far smaller.
inline constexpr tmsize_t kMostTiffBytes = tmsize_t{256} << 20;

// A file in memory, as a source for libtiff, and libtiff's messages about it.
class TiffSource {
 public:
  TiffSource() = default;
  TiffSource(const TiffSource&) = delete;
  TiffSource& operator=(const TiffSource&) = delete;

  // Throws SampleError when it is no TIFF.
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
    // "m": read by the functions below, not from a mapping.
    TIFF* const tiff =
        TIFFClientOpenExt("the file", "rm", this, read, no_write, seek, close, size, nullptr, nullptr, options.get());
    if (tiff != nullptr && has_complaint()) TIFFClose(tiff);
    if (tiff == nullptr || has_complaint()) throw failure();
    return tiff;
  }

  // From now on a warning means that pixels are invented.
  void begin_decoding() noexcept { decoding_ = true; }
  [[nodiscard]] bool has_complaint() const noexcept { return complaint_[0] != '\0'; }
  // Also for lack of memory: libtiff uses the same words for damaged sizes as for memory that the system refused.
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
    // Offsets are unsigned; relative ones wrap around.
    self.at_ = from == SEEK_CUR ? self.at_ + offset : from == SEEK_END ? self.bytes_.size() + offset : offset;
    return self.at_;
  }
  static toff_t size(thandle_t handle) { return of(handle).bytes_.size(); }

  // Before the pixels, libtiff speaks of a tag that it leaves out or makes up. That is harmless where no pixel needs
  // the tag. Among the pixels something is made up.
  static int on_error(TIFF* /*tiff*/, void* pointer, const char* /*module*/, const char* format, va_list values) {
    TiffSource& self = of(pointer);
    const Text text = formatted(format, values);
    self.hear(text, self.decoding_ || !is_of_spare_tag(text.data()));
    return 1;
  }
  // Where a tag that pixels need has a warning, it has a value all the same, unless the file ends before it or it is
  // the palette, without which another kind of image is made of the file. Among the pixels a dialect of LZW is read.
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

  // Whether a message names a tag, and one without which all pixels are the same. Those that libtiff does not know have
  // no name.
  static bool is_of_spare_tag(std::string_view message) noexcept {
    constexpr std::array kNeeded{"ImageWidth",
                                 "ImageLength",
                                 "BitsPerSample",
                                 "Compression",
                                 "PhotometricInterpretation",
                                 "FillOrder",
                                 "StripOffsets",
                                 "SamplesPerPixel",
                                 "RowsPerStrip",
                                 "StripByteCounts",
                                 "PlanarConfiguration",
                                 "Group3Options",
                                 "Group4Options",
                                 "ColorMap",
                                 "TileWidth",
                                 "TileLength",
                                 "TileOffsets",
                                 "TileByteCounts",
                                 "InkSet",
                                 "ExtraSamples",
                                 "SampleFormat",
                                 "JPEGTables",
                                 "YCbCrCoefficients",
                                 "YCbCrSubsampling",
                                 "ReferenceBlackWhite",
                                 "Predictor",
                                 "Orientation",
                                 "JpegInterchangeFormat",
                                 "JpegProc"};
    if (message.starts_with("Defined set_field_type of custom tag")) return true;
    const auto open = message.find('"');
    const auto close = open == std::string_view::npos ? open : message.find('"', open + 1);
    if (close == std::string_view::npos) return false;
    const std::string_view name = message.substr(open + 1, close - open - 1);
    return std::ranges::none_of(kNeeded, [&](std::string_view needed) { return name.starts_with(needed); });
  }

  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  bool decoding_ = false;
  Text complaint_{};  // the first
  Text remark_{};     // the first, harmless or not
};

}  // namespace forebay::make
