// Decodes JPEG files with libjpeg-turbo: open() reads the header, decode() the wanted part of the
// image, at full size or shrunk in the DCT. It is the reference for pixels and for damage: whatever
// src/jpeg decodes must equal what comes from here. One decoder per thread, made once; libjpeg's
// memory is kept from image to image (libjpeg_managers.hpp).
//
// A part must have the pixels that the whole image has there. libjpeg-turbo's cropping does not
// ensure that by itself: it may choose another upsampling or smoothing for a part. The functions
// below say where, and widen the part.
//
// Warnings are errors (docs/decisions/0003-jpeg-warnings-are-bad-samples.md), because libjpeg makes
// up pixels after them. Errors leave libjpeg's callbacks by longjmp() to require(), so no stack
// frame in between may hold anything with a destructor.

#include "libjpeg_decoder.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <string_view>

#include <jerror.h>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "data/image_size.hpp"
#include "signature.hpp"

namespace forebay::make {
namespace {

// A file of thousands of nearly empty scans would keep a decoder busy for minutes. libjpeg itself
// writes ten in a progressive file. The limit is a choice.
constexpr int kMaxScans = 100;
constexpr int kExifMarker = JPEG_APP0 + 1;
// The greatest length of a segment.
constexpr unsigned kWholeSegment = 0xffff;
// Fancy upsampling at most doubles chroma, and looks one chroma sample to each side. At the edge of
// a cropped part it behaves as at the edge of the image. So this many pixels beside the part are
// decoded too.
constexpr std::int32_t kReach = 2;
// Rows that are rotated together if the image is not displayed as stored.
constexpr std::int32_t kStripRows = 16;

// R, G or B from inverted ink and inverted black. djpeg rounds the same quotient half up in
// floating point. The quotient is never half way between two integers, because 255 is odd, so both
// agree.
std::uint8_t unink(unsigned ink, unsigned black) noexcept {
  return static_cast<std::uint8_t>((2 * ink * black + 255) / 510);
}

// JPEG files have CMYK as Adobe writes it: all four components inverted.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, std::size_t pixels) noexcept {
  for (std::size_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    for (std::size_t channel = 0; channel < 3; ++channel) rgb[channel] = unink(cmyk[channel], cmyk[3]);
  }
}

}  // namespace

// Searches from the end, where the marker normally is. It may be anywhere after the header: bytes
// that follow it are common, and not damage.
bool OpenJpeg::has_end_marker() const noexcept {
  const std::string_view text = as_text(scans);
  return text.rfind("\xff\xd9") != std::string_view::npos;
}

LibjpegDecoder::LibjpegDecoder() noexcept {
  info_.err = jpeg_std_error(&errors_);
  errors_.error_exit = on_error;
  errors_.emit_message = on_message;
  errors_.output_message = [](j_common_ptr) {};
  info_.client_data = this;
  progress_.progress_monitor = on_progress;
}

ImageSize LibjpegDecoder::open(std::span<const std::byte> bytes, const ImageOptions& options) {
  close();
  if (!starts_as_jpeg(bytes)) throw SampleError("not a JPEG: " + describe_content(bytes));
  bytes_ = bytes;
  require([&] { read_header(options); });
  check_header(options);
  scan_begin_ = source_.position();
  orientation_ = options.orientation != 0 ? options.orientation : options.exif ? stored_orientation() : 1;
  grey_ = options.grey;
  return swaps_axes(orientation_) ? ImageSize{stored_height(), stored_width()}
                                  : ImageSize{stored_width(), stored_height()};
}

JpegHeader LibjpegDecoder::header() const noexcept {
  return {.width = stored_width(), .height = stored_height(), .orientation = orientation_, .is_plain = is_plain()};
}

// The decoder is closed in any case, because the caller's bytes do not outlive the call.
void LibjpegDecoder::decode(const Box& region, std::int32_t shrink, Image& out) {
  struct Close {
    LibjpegDecoder& decoder;
    ~Close() { decoder.close(); }
  } const close_at_end{*this};
  const Box wanted = stored_box(region, stored_width(), stored_height(), orientation_);
  require([&] { start(shrink); });
  Box part = needed_part(wanted, shrink);
  require([&] { crop(part); });
  // libjpeg looks for the end-of-image marker only after the last row, so it would not notice that
  // a file was cut short below the part.
  if (part.bottom < output_height() && jpeg_input_complete(&info_) == FALSE) require_end_marker();
  make_room(part, shrink, out);
  require([&] { read_part(part, out); });
}

// Jumps back to the require() that is running.
template <typename... Values>
void LibjpegDecoder::escape(const char* format, Values... values) noexcept {
  std::snprintf(message_.data(), message_.size(), format, values...);
  // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
  std::longjmp(escape_, 1);
}

const char* LibjpegDecoder::libjpeg_message() noexcept {
  errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), libjpeg_message_.data());
  return libjpeg_message_.data();
}

void LibjpegDecoder::on_error(j_common_ptr info) { of(info).escape("libjpeg: %s", of(info).libjpeg_message()); }

void LibjpegDecoder::on_message(j_common_ptr info, int level) {
  if (level >= 0 || of(info).is_header_odd(info->err->msg_code)) return;
  of(info).escape("damaged (libjpeg: %s)", of(info).libjpeg_message());
}

// Whether a warning is only about an odd header; libjpeg makes up no pixels then. Surplus bytes
// count as that only before the first scan: later they are what a damaged scan leaves over.
bool LibjpegDecoder::is_header_odd(int warning) const noexcept {
  switch (warning) {
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL: return true;
    case JWRN_EXTRANEOUS_DATA: return info_.input_scan_number == 0;
    default: return false;
  }
}

// libjpeg calls this within each scan of a progressive file.
void LibjpegDecoder::on_progress(j_common_ptr info) {
  if (of(info).info_.input_scan_number > kMaxScans) of(info).escape("more than %d scans", kMaxScans);
}

// Runs a step that calls libjpeg; throws SampleError if libjpeg escaped from it.
template <typename Step>
void LibjpegDecoder::require(const Step& step) {
  // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
  if (setjmp(escape_) != 0) {
    if (memory_.was_refused()) throw std::bad_alloc();
    throw SampleError(message_.data());
  }
  step();
}

void LibjpegDecoder::read_header(const ImageOptions& options) {
  jpeg_create_decompress(&info_);
  memory_.serve(info_);
  info_.progress = &progress_;
  source_.serve(info_, bytes_);
  jpeg_save_markers(&info_, kExifMarker, options.exif ? kWholeSegment : 0);
  jpeg_read_header(&info_, TRUE);
}

void LibjpegDecoder::check_header(const ImageOptions& options) {
  require_permitted_size("JPEG", std::int64_t{info_.image_width}, std::int64_t{info_.image_height}, options);
  switch (info_.jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_YCbCr:
    case JCS_RGB: info_.out_color_space = options.grey ? JCS_GRAYSCALE : JCS_RGB; break;
    case JCS_CMYK:
    case JCS_YCCK: info_.out_color_space = JCS_CMYK; break;
    default:
      throw SampleError("JPEG with " + std::to_string(info_.num_components) +
                        " components: only grey, YCbCr, RGB, CMYK and YCCK are decoded");
  }
  // The coefficients of a progressive image take 2 bytes each, for at most four components with
  // sides padded to whole blocks. The rest of libjpeg's memory is some rows. If it asks for more,
  // something is wrong.
  constexpr std::int64_t kBesidesCoefficients = 64LL << 20;
  const auto padded = [](std::int64_t side) { return (side + 31) / 32 * 32; };
  info_.mem->max_memory_to_use = static_cast<long>(kBesidesCoefficients + 8 * padded(std::int64_t{info_.image_width}) *
                                                                              padded(std::int64_t{info_.image_height}));
}

// The first EXIF segment counts, as with other readers.
int LibjpegDecoder::stored_orientation() const noexcept {
  for (auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
    const auto segment = std::as_bytes(std::span(marker->data, marker->data_length));
    if (marker->marker == kExifMarker && data::is_exif(segment)) return data::exif_orientation(segment);
  }
  return 1;
}

void LibjpegDecoder::start(std::int32_t shrink) noexcept {
  info_.scale_num = static_cast<unsigned>(DCTSIZE / shrink);
  info_.scale_denom = DCTSIZE;
  jpeg_start_decompress(&info_);
}

// Grey, or YCbCr in 4:4:4, 4:2:2, 4:2:0 or 4:4:0, that is, with chroma at full or half resolution
// in each direction.
bool LibjpegDecoder::has_common_sampling() const noexcept {
  const auto is_single = [](const jpeg_component_info& part) {
    return part.h_samp_factor == 1 && part.v_samp_factor == 1;
  };
  const jpeg_component_info* const parts = info_.comp_info;
  if (info_.jpeg_color_space == JCS_GRAYSCALE) return is_single(parts[0]);
  return info_.jpeg_color_space == JCS_YCbCr && parts[0].h_samp_factor <= 2 && parts[0].v_samp_factor <= 2 &&
         is_single(parts[1]) && is_single(parts[2]);
}

bool LibjpegDecoder::is_plain() const noexcept {
  return info_.progressive_mode == FALSE && info_.arith_code == FALSE && info_.data_precision == 8 &&
         info_.comps_in_scan == info_.num_components && has_common_sampling() && opened().has_end_marker();
}

// A progressive file may leave out coefficients. libjpeg then smooths across blocks, and a part
// cannot be decoded by itself.
bool LibjpegDecoder::smooths_blocks() const noexcept {
  if (info_.coef_bits == nullptr) return false;
  for (int component = 0; component < info_.num_components; ++component) {
    const auto& missing_bits = info_.coef_bits[component];
    if (std::any_of(missing_bits + 1, missing_bits + DCTSIZE2, [](int bits) { return bits != 0; })) return true;
  }
  return false;
}

// When shrinking, libjpeg may enlarge chroma twice, in the inverse DCT and in upsampling. For a
// cropped image libjpeg-turbo 2.1 then uses a wrong width (3.0 does not).
bool LibjpegDecoder::enlarges_chroma_twice(std::int32_t shrink) const noexcept {
  return shrink > 1 && std::any_of(info_.comp_info, info_.comp_info + info_.num_components, [this](const auto& part) {
           const int across = info_.max_h_samp_factor / part.h_samp_factor;
           const int down = info_.max_v_samp_factor / part.v_samp_factor;
           return across > 1 && down > 1 && across + down > 4;
         });
}

// If some component of the part is fewer than 2 samples wide, jpeg_crop_scanline() chooses the
// upsampling of all components anew: those of 2 samples or fewer get plain upsampling, while the
// whole image has fancy upsampling.
bool LibjpegDecoder::changes_upsampling(std::int32_t width) const noexcept {
  return std::any_of(info_.comp_info, info_.comp_info + info_.num_components, [&](const auto& part) {
    return std::int64_t{width} * part.h_samp_factor <= info_.max_h_samp_factor;
  });
}

// The part to decode for `wanted`, a region of the stored image, in pixels of libjpeg's output:
// whole iMCU columns, with kReach more pixels on each side where there are any. libjpeg itself adds
// the rows that it needs above and below. The last iMCU column can be narrow; then the one before
// it is decoded too.
Box LibjpegDecoder::needed_part(const Box& wanted, std::int32_t shrink) const noexcept {
  const auto width = static_cast<std::int32_t>(info_.output_width);
  Box part{wanted.left / shrink, wanted.top / shrink, std::min((wanted.right + shrink - 1) / shrink, width),
           std::min((wanted.bottom + shrink - 1) / shrink, output_height())};
  if (smooths_blocks() || enlarges_chroma_twice(shrink)) return {0, 0, width, part.bottom};
  const std::int32_t column = DCTSIZE / shrink * info_.max_h_samp_factor;
  part.left = std::max(part.left - kReach, 0) / column * column;
  part.right = std::min((part.right + kReach + column - 1) / column * column, width);
  if (part.left > 0 && changes_upsampling(part.width())) part.left -= column;
  return part;
}

void LibjpegDecoder::crop(Box& part) noexcept {
  auto left = static_cast<JDIMENSION>(part.left);
  auto width = static_cast<JDIMENSION>(part.width());
  jpeg_crop_scanline(&info_, &left, &width);
  part.left = static_cast<std::int32_t>(left);
  part.right = static_cast<std::int32_t>(left + width);
}

void LibjpegDecoder::require_end_marker() const {
  if (opened().has_end_marker()) return;
  throw SampleError("damaged: the file ends without an end-of-image marker, probably cut short");
}

// Makes the buffers large enough (they never shrink), and sets out.area, in which callers find
// their region.
void LibjpegDecoder::make_room(const Box& part, std::int32_t shrink, Image& out) {
  const bool swaps = swaps_axes(orientation_);
  out.resize(swaps ? part.height() : part.width(), swaps ? part.width() : part.height());
  const Box full_size{part.left * shrink, part.top * shrink, part.right * shrink, part.bottom * shrink};
  out.area = displayed_box(full_size, stored_width(), stored_height(), orientation_);
  out.shrink = shrink;
  const auto width = static_cast<std::size_t>(part.width());
  if (info_.out_color_space == JCS_CMYK && cmyk_.size() < width * 4) cmyk_.resize(width * 4);
  const auto strip = width * 3 * static_cast<std::size_t>(kStripRows);
  if (orientation_ != 1 && strip_.size() < strip) strip_.resize(strip);
}

void LibjpegDecoder::read_row(std::uint8_t* to) noexcept {
  if (info_.out_color_space == JCS_RGB) {
    jpeg_read_scanlines(&info_, &to, 1);
    return;
  }
  const std::size_t width = info_.output_width;
  if (info_.out_color_space == JCS_GRAYSCALE) {
    // The values are decoded into the end of the line, so expanding them in place overwrites only
    // values that were already used.
    JSAMPROW line = to + 2 * width;
    jpeg_read_scanlines(&info_, &line, 1);
    for (std::size_t i = 0; i < width; ++i) std::fill_n(to + 3 * i, 3, std::uint8_t{line[i]});
    return;
  }
  JSAMPROW line = cmyk_.data();
  jpeg_read_scanlines(&info_, &line, 1);
  cmyk_to_rgb(cmyk_.data(), to, width);
  if (grey_) make_grey({to, 3 * width});
}

void LibjpegDecoder::read_part(const Box& part, Image& out) noexcept {
  if (part.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(part.top));
  read_rows(part, out);
  // After the last row libjpeg also checks for the end-of-image marker. The rest of a file below a
  // part does not matter.
  if (part.bottom == output_height()) jpeg_finish_decompress(&info_);
}

// A rotated image is read in strips, so that rows become columns within the cache.
void LibjpegDecoder::read_rows(const Box& part, Image& out) noexcept {
  if (orientation_ == 1) {
    for (std::int32_t y = 0; y < part.height(); ++y) read_row(out.row(y));
    return;
  }
  const auto row_bytes = static_cast<std::size_t>(part.width()) * 3;
  for (std::int32_t y = 0; y < part.height(); y += kStripRows) {
    const auto rows = std::min(kStripRows, part.height() - y);
    for (std::int32_t i = 0; i < rows; ++i) read_row(strip_.data() + static_cast<std::size_t>(i) * row_bytes);
    place_rows(strip_, y, rows, part.width(), part.height(), orientation_, out);
  }
}

}  // namespace forebay::make
