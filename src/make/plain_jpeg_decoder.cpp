// Connects an open JPEG file to the decoder in src/jpeg, on a decoder thread. libjpeg has read the
// header. describe() takes over its tables if the file is of the plain kind, decode() decodes a
// region with Forebay's own entropy decoder and pixel stage, and is_sound() then checks what
// libjpeg would have read beyond the region. For anything unusual, and if decoding stops on the
// way, these functions return false, and the caller decodes with libjpeg from the beginning. So
// nothing here may accept a file that libjpeg refuses; the fuzzer's target `jpeg` checks that.

#include "plain_jpeg_decoder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <forebay/view.hpp>

#include "image.hpp"
#include "jpeg/pixel_stage.hpp"

namespace forebay::make {
namespace {

// Takes rows of a part of the stored image and puts them where they are displayed.
class PlacedRows final : public jpeg::RgbRows {
 public:
  PlacedRows(const Box& part, int orientation, std::vector<std::uint8_t>& strip, Image& out)
      : width_(part.width()), height_(part.height()), orientation_(orientation), strip_(strip), out_(out) {
    const auto bytes = row_bytes() * static_cast<std::size_t>(kRowsTurned);
    if (orientation_ != 1 && strip_.size() < bytes) strip_.resize(bytes);
  }

  std::uint8_t* row(std::int32_t y) override {
    if (orientation_ == 1) return out_.row(y);
    if (y == first_ + kRowsTurned) place(kRowsTurned);
    return strip_.data() + static_cast<std::size_t>(y - first_) * row_bytes();
  }

  // Called after the last row.
  void finish() {
    if (orientation_ != 1) place(height_ - first_);
  }

 private:
  // Rows that are rotated together if the image is not displayed as stored.
  static constexpr std::int32_t kRowsTurned = 16;

  [[nodiscard]] std::size_t row_bytes() const noexcept { return static_cast<std::size_t>(width_) * 3; }
  void place(std::int32_t rows) {
    place_rows(strip_, first_, rows, width_, height_, orientation_, out_);
    first_ += rows;
  }

  std::int32_t width_;
  std::int32_t height_;
  int orientation_;
  std::vector<std::uint8_t>& strip_;
  Image& out_;
  std::int32_t first_ = 0;  // the image row that is first in the strip
};

constexpr std::int32_t kBlockSide = 8;
// An index must save at least so many luma blocks to be worth a look-up, which costs a hash of the
// file and two reads. The number is a choice.
constexpr std::int64_t kWorthwhileBlocks = 400;

std::optional<jpeg::JpegColour> colour_of(const jpeg_decompress_struct& info) noexcept {
  if (info.jpeg_color_space == JCS_GRAYSCALE && info.num_components == 1) return jpeg::JpegColour::grey;
  if (info.num_components != 3) return std::nullopt;
  if (info.jpeg_color_space == JCS_YCbCr) return jpeg::JpegColour::ycbcr;
  if (info.jpeg_color_space == JCS_RGB) return jpeg::JpegColour::rgb;
  return std::nullopt;
}

// Whether the file is one scan of all components, in the order of the frame, with whole
// coefficients. These are libjpeg's fields of the first scan header (Ss, Se, Ah, Al of T.81,
// B.2.3). Lossless files have another Se.
bool is_sequential(const jpeg_decompress_struct& info) noexcept {
  if (info.progressive_mode != FALSE || info.arith_code != FALSE || info.data_precision != 8) return false;
  if (info.Ss != 0 || info.Se != DCTSIZE2 - 1 || info.Ah != 0 || info.Al != 0) return false;
  if (info.comps_in_scan != info.num_components) return false;
  for (int i = 0; i < info.num_components; ++i) {
    if (info.cur_comp_info[i] != info.comp_info + i) return false;
  }
  return true;
}

bool copy_code(const JHUFF_TBL* const (&tables)[NUM_HUFF_TBLS], int number, jpeg::HuffmanCode& code) noexcept {
  if (number < 0 || number >= NUM_HUFF_TBLS || tables[number] == nullptr) return false;
  std::copy(std::begin(tables[number]->bits), std::end(tables[number]->bits), code.counts.begin());
  code.counts[0] = 0;
  std::copy(std::begin(tables[number]->huffval), std::end(tables[number]->huffval), code.symbols.begin());
  return true;
}

bool copy_quantiser(const jpeg_decompress_struct& info, int number, jpeg::JpegComponent& component) noexcept {
  if (number < 0 || number >= NUM_QUANT_TBLS || info.quant_tbl_ptrs[number] == nullptr) return false;
  const auto& values = info.quant_tbl_ptrs[number]->quantval;
  std::copy(std::begin(values), std::end(values), component.quantiser.begin());
  return true;
}

// How many MCU rows libjpeg decodes to deliver the pixel rows above `bottom`. It decodes in groups
// as high as the tallest component is in an MCU. If that is more than one block, upsampling the
// last pixel rows of a group also needs the chroma of the next group.
std::int32_t rows_decoded(const OpenJpeg& file, const jpeg::JpegFrame& frame, std::int32_t bottom) noexcept {
  const std::int32_t tallest = file.info.max_v_samp_factor;
  const std::int32_t pixels = kBlockSide * tallest;
  std::int32_t groups = (bottom - 1) / pixels + 1;
  if (tallest > 1 && (bottom - 1) % pixels >= pixels - tallest) ++groups;
  return std::min(groups * (tallest / frame.max_v), frame.mcus_down);
}

}  // namespace

// The only component of a file is not interleaved, so its sampling factors stay 1 here.
bool PlainJpegDecoder::describe(const OpenJpeg& file) {
  const auto colour = colour_of(file.info);
  if (!colour || !is_sequential(file.info)) return false;
  frame_ = {.width = file.width(),
            .height = file.height(),
            .colour = *colour,
            .components = static_cast<std::size_t>(file.info.num_components)};
  for (std::size_t i = 0; i < frame_.components; ++i) {
    const jpeg_component_info& from = file.info.comp_info[i];
    jpeg::JpegComponent& component = frame_.component[i];
    if (frame_.components > 1) {
      component.h = from.h_samp_factor;
      component.v = from.v_samp_factor;
    }
    jpeg::ScanDecoder::Codes& codes = scan_.codes[i];
    if (!copy_quantiser(file.info, from.quant_tbl_no, component) ||
        !copy_code(file.info.dc_huff_tbl_ptrs, from.dc_tbl_no, codes.dc) ||
        !copy_code(file.info.ac_huff_tbl_ptrs, from.ac_tbl_no, codes.ac)) {
      return false;
    }
  }
  frame_.complete();
  scan_.restart_interval = file.info.restart_interval;
  scan_.bytes = file.scans;
  return true;
}

// Does not look the file up if the index could skip fewer blocks than a look-up is worth.
jpeg::ScanPoints PlainJpegDecoder::find_points(const OpenJpeg& file) {
  const jpeg::McuRegion& wanted = scan_.wanted;
  const std::int64_t passed =
      std::int64_t{frame_.mcus_across} * wanted.bottom - std::int64_t{wanted.width()} * wanted.height();
  if (index_ == nullptr || passed * frame_.max_h * frame_.max_v < kWorthwhileBlocks) return {};
  return index_->find(file.bytes, frame_, points_);
}

// Checks what libjpeg would also read: the rows that it decodes beyond the last wanted one, and the
// end of the image if that row is the image's last. A file with points in the index was found sound
// as a whole when the index was written.
bool PlainJpegDecoder::is_sound(const OpenJpeg& file, const Box& part) {
  if (was_indexed()) return true;
  if (!scan_decoder_.finish(rows_decoded(file, frame_, part.bottom))) return false;
  return part.bottom < frame_.height || scan_decoder_.at_end_of_image();
}

PlainJpegDecoder::Part PlainJpegDecoder::part_of(const OpenJpeg& file, const Box& region) const noexcept {
  const bool luma = file.grey && frame_.colour != jpeg::JpegColour::grey;
  const auto colours = luma ? jpeg::PixelStage::Colours::luma : jpeg::PixelStage::Colours::all;
  return {.box = stored_box(region, frame_.width, frame_.height, file.orientation),
          .colours = colours,
          .is_served = jpeg::PixelStage::serves(frame_, colours)};
}

bool PlainJpegDecoder::decode(const OpenJpeg& file, const Box& region, Image& out) {
  scan_.points = {};
  if (!describe(file)) return false;
  const Part part = part_of(file, region);
  if (!part.is_served) return false;
  if (part.box.bottom < frame_.height && !file.has_end_marker()) return false;
  scan_.wanted = jpeg::PixelStage::needed(frame_, part.box, part.colours);
  scan_.points = find_points(file);
  if (!scan_decoder_.open(frame_, scan_)) return false;
  out.resize(region.width(), region.height());
  out.area = region;
  PlacedRows rows(part.box, file.orientation, strip_, out);
  if (!stage_.decode(frame_, part.box, part.colours, scan_decoder_, rows) || !is_sound(file, part.box)) return false;
  rows.finish();
  return true;
}

// Packing verified that the scan is whole and undamaged, but early versions accepted surplus bytes
// after it; libjpeg decides on those files.
bool PlainJpegDecoder::decode(const OpenJpeg& file, const pack::PackedJpeg& packed, const Box& region, Image& out) {
  scan_.points = {};
  if (!describe(file)) return false;
  const Part part = part_of(file, region);
  if (!part.is_served || !packed.ends_behind_scan()) return false;
  packed_.open(packed, frame_);
  out.resize(region.width(), region.height());
  out.area = region;
  PlacedRows rows(part.box, file.orientation, strip_, out);
  if (!stage_.decode(frame_, part.box, part.colours, packed_, rows)) return false;
  rows.finish();
  return true;
}

// Called by `forebay index --decode-index`. Only files that decode from beginning to end without
// any objection get points.
std::vector<std::byte> PlainJpegDecoder::locate(const OpenJpeg& file) {
  std::vector<std::byte> points;
  scan_.points = {};
  if (!describe(file) || std::int64_t{frame_.width} * frame_.height < kWorthwhileBlocks * kBlockSide * kBlockSide ||
      !jpeg::PixelStage::serves(frame_, jpeg::PixelStage::Colours::all)) {
    return {};
  }
  scan_.wanted = {0, 0, frame_.mcus_across, frame_.mcus_down};
  points.reserve(jpeg::ScanPoints::bytes_of(frame_));
  const bool is_known =
      scan_decoder_.open(frame_, scan_) && scan_decoder_.locate(points) && scan_decoder_.at_end_of_image();
  if (!is_known) return {};
  return points;
}

}  // namespace forebay::make
