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

namespace forebay {

// What libtiff may ask for at once; an image that needs more is refused. Rows and tables of strips are far smaller.
inline constexpr tmsize_t kMostTiffBytes = tmsize_t{256} << 20;

// A file in memory, as libtiff reads it, and what it says of it.
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

  // From here on a warning means that pixels are made up.
  void begin_decoding() noexcept { decoding_ = true; }
  [[nodiscard]] bool has_complaint() const noexcept { return complaint_[0] != '\0'; }
  [[nodiscard]] SampleError failure() const {
    return SampleError(
        "TIFF: damaged (libtiff: " + std::string(has_complaint() ? complaint_.data() : "no reason given") + ")");
  }

 private:
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
    // Offsets are unsigned; what is relative wraps around.
    self.at_ = from == SEEK_CUR ? self.at_ + offset : from == SEEK_END ? self.bytes_.size() + offset : offset;
    return self.at_;
  }
  static toff_t size(thandle_t handle) { return of(handle).bytes_.size(); }

  static int on_error(TIFF* /*tiff*/, void* self, const char* /*module*/, const char* format, va_list values) {
    TiffSource& source = of(self);
    if (!source.has_complaint()) std::vsnprintf(source.complaint_.data(), source.complaint_.size(), format, values);
    return 1;
  }
  // Before the pixels, a warning is of a tag that is left out or made up. That is harmless unless the file ends before
  // it or it is the palette, without which another kind of image is made of the file. Among the pixels something is
  // made up, except for a dialect of LZW that is read all the same.
  static int on_warning(TIFF* /*tiff*/, void* pointer, const char* /*module*/, const char* format, va_list values) {
    TiffSource& self = of(pointer);
    std::array<char, 200> text{};
    std::vsnprintf(text.data(), text.size(), format, values);
    const std::string_view message = text.data();
    const bool is_damage =
        self.decoding_ ? !message.starts_with("Old-style LZW")
                       : message.starts_with("IO error") || message.find("\"ColorMap\"") != std::string_view::npos;
    if (is_damage && !self.has_complaint()) self.complaint_ = text;
    return 1;
  }

  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  bool decoding_ = false;
  std::array<char, 200> complaint_{};  // the first
};

}  // namespace forebay
