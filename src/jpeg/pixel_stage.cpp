// Computes pixels from coefficients, one row of MCUs at a time, on a decoder thread. decode() asks
// the source for the coefficients of a row and transforms them into strips of samples, one strip
// per component. It then upsamples components row by row, converts colours, and hands each finished
// row to the caller. What one step writes is still in the first-level cache when the next reads it.
//
// Fancy upsampling mixes a row with its neighbour above or below. So the last row of an MCU row
// waits for the next MCU row, and a copy of it is kept above the strip (keep_last_rows()). Strips
// have a margin on the left and slack on the right, because kernels read whole vectors.

#include "pixel_stage.hpp"

#include <algorithm>
#include <cstring>

namespace forebay::jpeg {
namespace {

constexpr std::int32_t kBlockSide = CoefficientRow::kSide;
// The margin before the first sample of a row: what is left of it can be read, and rows begin with
// a cache line.
constexpr std::size_t kLeftMargin = 64;

std::size_t size_of_count(std::int32_t count) noexcept { return static_cast<std::size_t>(count); }

std::size_t padded_to_line(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

}  // namespace

std::size_t PixelStage::wanted_components(const JpegFrame& frame, Colours colours) noexcept {
  return colours == Colours::luma ? 1 : frame.components;
}

// Sampling factors must divide the largest ones, as in nearly all files. Quantisers above
// kMostQuantiser would exceed 16 bits.
bool PixelStage::serves(const JpegFrame& frame, Colours colours) noexcept {
  if (colours == Colours::luma && frame.colour == JpegColour::rgb) return false;
  for (std::size_t k = 0; k < wanted_components(frame, colours); ++k) {
    const JpegComponent& part = frame.component[k];
    if (frame.max_h % part.h != 0 || frame.max_v % part.v != 0) return false;
    if (std::ranges::any_of(part.quantiser, [](int factor) { return factor > PixelKernels::kMostQuantiser; })) {
      return false;
    }
  }
  return true;
}

McuRegion PixelStage::needed(const JpegFrame& frame, const Box& region, Colours colours) noexcept {
  return needed_mcus(frame, region, wanted_components(frame, colours));
}

// One block of memory holds all strips; it grows and is kept from image to image. The row above a
// strip is part of the strip.
void PixelStage::prepare(const JpegFrame& frame, const McuRegion& mcus, Colours colours) {
  components_ = wanted_components(frame, colours);
  coefficients_.reset(frame, components_, mcus);
  const std::size_t width = size_of_count(mcus.width() * kBlockSide * frame.max_h);
  const std::size_t enlarged = padded_to_line(width + PixelKernels::kSlack);
  std::size_t total = 0;
  for (std::size_t k = 0; k < components_; ++k) {
    Strip& strip = strips_[k];
    const JpegComponent& part = frame.component[k];
    strip.enlargement = enlargement_of(frame, k);
    strip.rows = kBlockSide * part.v;
    strip.height = part.height;
    strip.stride = kLeftMargin + padded_to_line(coefficients_.stride(k) * CoefficientRow::kSide + PixelKernels::kSlack);
    // Counted from the strip's first column; at the right edge of the image the last column is
    // mixed with itself.
    strip.last_column = size_of_count(part.width - 1 - mcus.left * kBlockSide * part.h);
    total += strip.stride * size_of_count(strip.rows + 1) + enlarged;
  }
  if (samples_.size() < total) samples_.resize(total);
  if (sums_.size() < width + PixelKernels::kSlack) sums_.resize(width + PixelKernels::kSlack);
  std::uint8_t* at = samples_.data();
  for (std::size_t k = 0; k < components_; ++k) {
    Strip& strip = strips_[k];
    strip.first = at + strip.stride + kLeftMargin;
    at += strip.stride * size_of_count(strip.rows + 1);
    strip.enlarged = at;
    at += enlarged;
  }
}

bool PixelStage::transform(const JpegFrame& frame) {
  bool good = true;
  for (std::size_t k = 0; k < components_; ++k) {
    const Strip& strip = strips_[k];
    for (std::int32_t row = 0; row < frame.component[k].v; ++row) {
      const auto at = size_of_count(row);
      good = kernels_->transform(coefficients_.blocks(k, at), coefficients_.extents(k, at), coefficients_.stride(k),
                                 frame.component[k].quantiser.data(), strip.row(row * kBlockSide), strip.stride) &&
             good;
    }
    if (!strip.enlargement.mixes_columns()) continue;
    // At the edges of an image, samples are mixed with themselves. If the strip ends before the
    // image does, nothing needs the sample beyond it.
    const std::size_t end = coefficients_.width(k) * CoefficientRow::kSide;
    for (std::int32_t row = 0; row < strip.rows; ++row) {
      std::uint8_t* const samples = strip.row(row);
      samples[-1] = samples[0];
      if (strip.last_column < end) samples[strip.last_column + 1] = samples[strip.last_column];
    }
  }
  return good;
}

void PixelStage::keep_last_rows() noexcept {
  for (std::size_t k = 0; k < components_; ++k) {
    const Strip& strip = strips_[k];
    std::memcpy(strip.row(-1) - kLeftMargin, strip.row(strip.rows - 1) - kLeftMargin, strip.stride);
  }
}

// Only the columns that the region shows, and one more sample on either side for mixing.
const std::uint8_t* PixelStage::enlarged_row(const Strip& strip, std::int32_t y, std::int32_t mcu_row) noexcept {
  const std::int32_t first = mcu_row * strip.rows;
  const Enlargement& how = strip.enlargement;
  const std::uint8_t* const near = strip.row(y / how.down - first);
  if (how.kind == Upsampling::none) return near;
  const ChromaRows rows{near, how.mixes_rows() ? strip.row(far_sample(y, strip.height) - first) : nullptr};
  const std::size_t begin = skipped_ / size_of_count(how.across);
  const std::size_t end = (skipped_ + size_of_count(region_.width()) - 1) / size_of_count(how.across) + 1;
  switch (how.kind) {
    case Upsampling::down:
      kernels_->mix_rows({rows.near + begin, rows.far + begin}, end - begin, y % 2 == 0 ? 1 : 2,
                         strip.enlarged + begin);
      break;
    case Upsampling::across:
    case Upsampling::both:
      kernels_->double_across({rows.near + begin, rows.far == nullptr ? nullptr : rows.far + begin}, end - begin,
                              sums_.data(), strip.enlarged + 2 * begin);
      break;
    default:
      for (std::size_t x = begin; x < end; ++x) {
        std::fill_n(strip.enlarged + x * size_of_count(how.across), how.across, near[x]);
      }
  }
  return strip.enlarged;
}

// Returns false if the source stops, or if values exceed the kernels' bounds. Rows handed out by
// then are worthless; the caller decodes the image with libjpeg-turbo from the beginning.
bool PixelStage::decode(const JpegFrame& frame, const Box& region, Colours colours, CoefficientSource& source,
                        RgbRows& rows) {
  const McuRegion mcus = needed(frame, region, colours);
  prepare(frame, mcus, colours);
  region_ = region;
  skipped_ = size_of_count(region.left - mcus.left * kBlockSide * frame.max_h);
  const bool mixes_rows = std::any_of(strips_.begin(), strips_.begin() + static_cast<std::ptrdiff_t>(components_),
                                      [](const Strip& strip) { return strip.enlargement.mixes_rows(); });
  const auto write = components_ == 1                  ? kernels_->from_grey
                     : frame.colour == JpegColour::rgb ? kernels_->from_rgb
                                                       : kernels_->from_ycc;
  std::array<const std::uint8_t*, JpegFrame::kMostComponents> parts{};
  std::int32_t y = region.top;
  for (std::int32_t mcu_row = mcus.top; mcu_row < mcus.bottom; ++mcu_row) {
    if (!source.read(mcu_row, coefficients_) || !transform(frame)) return false;
    // The last row waits for the next MCU row, with which it is mixed.
    std::int32_t ready = (mcu_row + 1) * kBlockSide * frame.max_v;
    if (mixes_rows && mcu_row + 1 < frame.mcus_down) --ready;
    for (; y < std::min(ready, region.bottom); ++y) {
      for (std::size_t k = 0; k < components_; ++k) parts[k] = enlarged_row(strips_[k], y, mcu_row) + skipped_;
      write(parts.data(), size_of_count(region.width()), rows.row(y - region.top));
    }
    if (mixes_rows) keep_last_rows();
  }
  return true;
}

}  // namespace forebay::jpeg
