#include "jpeg_decoder.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>
#include <vector>

// jpeglib.h needs FILE and size_t before it.
#include <jerror.h>
#include <jpeglib.h>

#include <forebay/error.hpp>

#include "exif.hpp"
#include "orientation.hpp"
#include "signature.hpp"

namespace forebay {
namespace {

constexpr int kMaxScans = 100;
constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kWholeSegment = 0xffff;
// Rows that are turned together when the orientation is not as stored.
constexpr std::int32_t kStripRows = 16;

// R, G or B of inverted ink and inverted black. djpeg rounds the same quotient half up in floating point; it is
// never half way between two integers (255 is odd), so both agree.
std::uint8_t unink(unsigned ink, unsigned black) noexcept {
  return static_cast<std::uint8_t>((2 * ink * black + 255) / 510);
}

void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, std::size_t pixels) noexcept {
  for (std::size_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    for (std::size_t channel = 0; channel < 3; ++channel) rgb[channel] = unink(cmyk[channel], cmyk[3]);
  }
}

}  // namespace

// libjpeg reports failure by a callback that must not return. It jumps back to require(), so between require() and
// libjpeg no frame may hold anything with a destructor.
class JpegDecoder::Impl {
 public:
  Impl() {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    errors_.output_message = [](j_common_ptr) {};
    info_.client_data = this;
    progress_.progress_monitor = on_progress;
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void decode(std::span<const std::byte> bytes, const JpegOptions& options, Image& out) {
    if (!starts_as_jpeg(bytes)) throw SampleError("not a JPEG: " + describe_content(bytes));
    // A fresh libjpeg object each time: a reused one keeps the tables of earlier images, and a file that lacks its own
    // would decode, or not, depending on what came before it. Making one costs a microsecond.
    struct Destroy {
      jpeg_decompress_struct& info;
      ~Destroy() { jpeg_destroy_decompress(&info); }
    } const destroy{info_};

    require([&] { read_header(bytes, options); });
    check_header(options);
    const int orientation = options.exif ? stored_orientation() : 1;
    const auto width = static_cast<std::int32_t>(info_.image_width);
    const auto height = static_cast<std::int32_t>(info_.image_height);
    if (swaps_axes(orientation)) {
      out.resize(height, width);
    } else {
      out.resize(width, height);
    }
    reserve_lines(orientation);
    require([&] {
      jpeg_start_decompress(&info_);
      read_rows(orientation, out);
      jpeg_finish_decompress(&info_);
    });
  }

 private:
  static Impl& of(j_common_ptr info) noexcept { return *static_cast<Impl*>(info->client_data); }

  // Goes back to the require() that is running.
  template <typename... Values>
  [[noreturn]] void escape(const char* format, Values... values) noexcept {
    std::snprintf(message_.data(), message_.size(), format, values...);
    // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
    std::longjmp(escape_, 1);
  }
  [[nodiscard]] const char* libjpeg_message() noexcept {
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), libjpeg_message_.data());
    return libjpeg_message_.data();
  }

  static void on_error(j_common_ptr info) { of(info).escape("libjpeg: %s", of(info).libjpeg_message()); }

  static void on_message(j_common_ptr info, int level) {
    if (level >= 0 || info->err->msg_code == JWRN_EXTRANEOUS_DATA) return;
    of(info).escape("damaged (libjpeg: %s)", of(info).libjpeg_message());
  }

  static void on_progress(j_common_ptr info) {
    if (of(info).info_.input_scan_number > kMaxScans) of(info).escape("more than %d scans", kMaxScans);
  }

  // Runs a step made of libjpeg calls and throws SampleError when libjpeg escaped from it.
  template <typename Step>
  void require(const Step& step) {
    // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
    if (setjmp(escape_) != 0) throw SampleError(message_.data());
    step();
  }

  void read_header(std::span<const std::byte> bytes, const JpegOptions& options) {
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()),
                 static_cast<unsigned long>(bytes.size()));
    jpeg_save_markers(&info_, kExifMarker, options.exif ? kWholeSegment : 0);
    jpeg_read_header(&info_, TRUE);
  }

  void check_header(const JpegOptions& options) {
    const auto pixels = std::int64_t{info_.image_width} * std::int64_t{info_.image_height};
    if (pixels > options.max_pixels) {
      throw SampleError("JPEG of " + std::to_string(info_.image_width) + " x " + std::to_string(info_.image_height) +
                        " = " + std::to_string(pixels) + " pixels: transform.max_pixels allows " +
                        std::to_string(options.max_pixels));
    }
    switch (info_.jpeg_color_space) {
      case JCS_GRAYSCALE:
      case JCS_YCbCr:
      case JCS_RGB: info_.out_color_space = JCS_RGB; break;
      case JCS_CMYK:
      case JCS_YCCK: info_.out_color_space = JCS_CMYK; break;
      default:
        throw SampleError("JPEG with " + std::to_string(info_.num_components) +
                          " components: only grey, YCbCr, RGB, CMYK and YCCK are decoded");
    }
    // A progressive image is held as 2-byte coefficients, four components at most, sides padded to whole blocks;
    // the rest of libjpeg's memory is some rows. More than that means that something is wrong.
    constexpr std::int64_t kBesidesCoefficients = 64LL << 20;
    const auto padded = [](std::int64_t side) { return (side + 31) / 32 * 32; };
    info_.mem->max_memory_to_use = static_cast<long>(
        kBesidesCoefficients + 8 * padded(std::int64_t{info_.image_width}) * padded(std::int64_t{info_.image_height}));
  }

  // The first EXIF segment counts, as it does for other readers.
  [[nodiscard]] int stored_orientation() const noexcept {
    for (auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
      const auto segment = std::as_bytes(std::span(marker->data, marker->data_length));
      if (marker->marker == kExifMarker && is_exif(segment)) return exif_orientation(segment);
    }
    return 1;
  }

  // Line buffers only grow.
  void reserve_lines(int orientation) {
    const std::size_t width = info_.image_width;
    if (info_.out_color_space == JCS_CMYK && cmyk_.size() < width * 4) cmyk_.resize(width * 4);
    const auto strip = width * 3 * static_cast<std::size_t>(kStripRows);
    if (orientation != 1 && strip_.size() < strip) strip_.resize(strip);
  }

  void read_row(std::uint8_t* to) noexcept {
    if (info_.out_color_space == JCS_RGB) {
      jpeg_read_scanlines(&info_, &to, 1);
      return;
    }
    JSAMPROW line = cmyk_.data();
    jpeg_read_scanlines(&info_, &line, 1);
    cmyk_to_rgb(cmyk_.data(), to, info_.image_width);
  }

  void read_rows(int orientation, Image& out) noexcept {
    const auto width = static_cast<std::int32_t>(info_.image_width);
    const auto height = static_cast<std::int32_t>(info_.image_height);
    if (orientation == 1) {
      for (std::int32_t y = 0; y < height; ++y) read_row(out.row(y));
      return;
    }
    const auto row_bytes = static_cast<std::size_t>(width) * 3;
    for (std::int32_t y = 0; y < height; y += kStripRows) {
      const auto rows = std::min(kStripRows, height - y);
      for (std::int32_t i = 0; i < rows; ++i) read_row(strip_.data() + static_cast<std::size_t>(i) * row_bytes);
      place_rows(strip_, y, rows, width, height, orientation, out);
    }
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf escape_{};
  std::array<char, JMSG_LENGTH_MAX> libjpeg_message_{};
  std::array<char, JMSG_LENGTH_MAX + 32> message_{};
  std::vector<std::uint8_t> cmyk_;   // one line
  std::vector<std::uint8_t> strip_;  // kStripRows lines of RGB
};

JpegDecoder::JpegDecoder() : impl_(std::make_unique<Impl>()) {}
JpegDecoder::~JpegDecoder() = default;
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;

void JpegDecoder::decode(std::span<const std::byte> bytes, const JpegOptions& options, Image& out) {
  impl_->decode(bytes, options, out);
}

}  // namespace forebay
