// The fast path for 8-bit PNG files that are not interlaced: joins the IDAT chunks, inflates them
// as a whole with libdeflate, undoes the filters (PNG specification, chapter 9), and converts to
// RGB. libpng inflates one row at a time, which is slow for short rows. The chunks' checksums, the
// size of the result and the end of the data are checked as in libpng. Anything that does not fit
// returns false, and libpng decides about the file. Memory is kept from image to image, up to a
// limit. Called on a decoder thread.

#include "png_inflater.hpp"

#include <libdeflate.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

namespace forebay::make {
namespace {

constexpr std::size_t kPngFirstChunk = 8;
constexpr std::size_t kPngChunkFrame = 12;  // length, name, checksum
// Larger images are left to libpng, which needs memory for only two rows at a time.
constexpr std::size_t kMostInflated = std::size_t{64} << 20U;
// The most memory that is kept for the next image.
constexpr std::size_t kMostKept = std::size_t{16} << 20U;

std::uint32_t png_number(const std::byte* at) noexcept {
  return std::to_integer<std::uint32_t>(at[0]) << 24U | std::to_integer<std::uint32_t>(at[1]) << 16U |
         std::to_integer<std::uint32_t>(at[2]) << 8U | std::to_integer<std::uint32_t>(at[3]);
}

// zlib refuses references beyond the window that the stream declares; libdeflate does not check
// that.
bool window_holds(std::byte method, std::size_t bytes) noexcept {
  constexpr unsigned kLargest = 7;
  const unsigned bits = std::to_integer<unsigned>(method) >> 4U;
  return bits == kLargest || (bits < kLargest && bytes <= std::size_t{256} << bits);
}

// The predictor of the Paeth filter: of left, above and corner, the one nearest to left + above -
// corner; the first of them on a tie.
int paeth(int left, int above, int corner) noexcept {
  const int to_left = std::abs(above - corner);
  const int to_above = std::abs(left - corner);
  const int to_corner = std::abs(left + above - 2 * corner);
  // Branchless, because the outcome is unpredictable.
  const int nearer = to_above <= to_corner ? above : corner;
  const bool is_left = (static_cast<int>(to_left <= to_above) & static_cast<int>(to_left <= to_corner)) != 0;
  return is_left ? left : nearer;
}

// Adds to each byte what its filter predicts from the same channel of the pixels to the left,
// above, and above left.
template <std::size_t kChannels, typename Predict>
void add_predicted(std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, Predict predict) noexcept {
  std::array<int, kChannels> left{};
  std::array<int, kChannels> corner{};
  for (std::size_t x = 0; x < bytes; x += kChannels) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      const int up = above[x + channel];
      left[channel] = (row[x + channel] + predict(left[channel], up, corner[channel])) & 0xFF;
      corner[channel] = up;
      row[x + channel] = static_cast<std::uint8_t>(left[channel]);
    }
  }
}

// Filters 0 to 4: none, sub, up, average, Paeth. Returns false for any other.
template <std::size_t kChannels>
bool unfilter_row(unsigned filter, std::uint8_t* row, const std::uint8_t* above, std::size_t bytes) noexcept {
  switch (filter) {
    case 0: return true;
    case 1: add_predicted<kChannels>(row, above, bytes, [](int left, int, int) { return left; }); return true;
    case 2:
      for (std::size_t x = 0; x < bytes; ++x) row[x] = static_cast<std::uint8_t>(row[x] + above[x]);
      return true;
    case 3:
      add_predicted<kChannels>(row, above, bytes, [](int left, int up, int) { return (left + up) / 2; });
      return true;
    case 4: add_predicted<kChannels>(row, above, bytes, paeth); return true;
    default: return false;
  }
}

// `row` points to the first pixel of the first row, after the byte that names the row's filter; the
// following rows have the same layout. The row above the first one is zeros, which decode() has put
// there.
template <std::size_t kChannels>
bool unfilter_rows(const PngShape& shape, std::uint8_t* row) noexcept {
  const std::size_t stride = shape.row_bytes() + 1;
  for (std::size_t y = 0; y < shape.height; ++y, row += stride) {
    if (!unfilter_row<kChannels>(row[-1], row, row - stride, shape.row_bytes())) return false;
  }
  return true;
}

bool unfilter(const PngShape& shape, std::uint8_t* row) noexcept {
  switch (shape.channels) {
    case 1: return unfilter_rows<1>(shape, row);
    case 2: return unfilter_rows<2>(shape, row);
    case 3: return unfilter_rows<3>(shape, row);
    case 4: return unfilter_rows<4>(shape, row);
    default: return false;
  }
}

// Converts pixels to RGB. Of two or four channels the last is alpha, which is dropped.
void to_rgb(const std::uint8_t* from, std::size_t channels, std::size_t pixels, std::uint8_t* to) noexcept {
  const std::size_t green = channels < 3 ? 0 : 1;
  for (std::size_t x = 0; x < pixels; ++x, from += channels, to += 3) {
    to[0] = from[0];
    to[1] = from[green];
    to[2] = from[2 * green];
  }
}

}  // namespace

PngInflater::PngInflater() : decompressor_(libdeflate_alloc_decompressor()) {
  if (decompressor_ == nullptr) throw std::bad_alloc();
}
PngInflater::~PngInflater() = default;
void PngInflater::End::operator()(libdeflate_decompressor* decompressor) const noexcept {
  libdeflate_free_decompressor(decompressor);
}

// IDAT chunks must be consecutive. A single one is used in place; several are joined.
std::span<const std::byte> PngInflater::compressed(std::span<const std::byte> file) {
  std::span<const std::byte> all;
  std::size_t at = kPngFirstChunk;
  bool has_begun = false;  // true even if the first IDAT chunks are empty
  while (file.size() >= at + kPngChunkFrame) {
    const std::byte* const chunk = file.data() + at;
    const bool has_pixels = std::memcmp(chunk + 4, "IDAT", 4) == 0;
    if (!has_pixels && has_begun) break;
    has_begun = has_pixels;
    const std::size_t length = png_number(chunk);
    if (length > file.size() - at - kPngChunkFrame) return {};
    at += kPngChunkFrame + length;
    if (!has_pixels) continue;
    if (libdeflate_crc32(0, chunk + 4, 4 + length) != png_number(chunk + 8 + length)) return {};
    const std::span content(chunk + 8, length);
    if (all.empty()) {
      all = content;
      continue;
    }
    if (all.data() != joined_.data()) joined_.assign(all.begin(), all.end());
    joined_.insert(joined_.end(), content.begin(), content.end());
    all = joined_;
  }
  return all;
}

// Sizes are bounded by division, so that no product can overflow.
bool PngInflater::decode(std::span<const std::byte> file, const PngShape& shape, std::span<std::uint8_t> out) {
  const std::size_t row_bytes = shape.row_bytes();
  if (decompressor_ == nullptr || row_bytes >= kMostInflated || shape.height >= kMostInflated / (row_bytes + 1))
    return false;
  const std::size_t stride = row_bytes + 1;
  const std::size_t bytes = stride * shape.height;
  const auto data = compressed(file);
  if (data.empty() || !window_holds(data.front(), bytes)) return false;

  rows_.resize(stride + bytes);
  std::memset(rows_.data(), 0, stride);
  std::size_t used = 0;
  std::size_t made = 0;
  const bool whole = libdeflate_zlib_decompress_ex(decompressor_.get(), data.data(), data.size(), rows_.data() + stride,
                                                   bytes, &used, &made) == LIBDEFLATE_SUCCESS &&
                     used == data.size() && made == bytes && unfilter(shape, rows_.data() + stride + 1);
  if (whole) {
    const std::uint8_t* row = rows_.data() + stride + 1;
    const std::size_t out_bytes = out.size() / shape.height;
    for (std::size_t y = 0; y < shape.height; ++y, row += stride) {
      std::uint8_t* const to = out.data() + y * out_bytes;
      if (out_bytes == row_bytes) {
        std::memcpy(to, row, row_bytes);
      } else {
        to_rgb(row, shape.channels, shape.width, to);
      }
    }
  }
  if (rows_.capacity() > kMostKept) rows_ = {};
  if (joined_.capacity() > kMostKept) joined_ = {};
  return whole;
}

}  // namespace forebay::make
