#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct libdeflate_decompressor;

namespace forebay::make {

// What the header of a PNG file says about its pixels.
struct PngShape {
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t channels = 0;  // 1 to 4, of 8 bits each
  [[nodiscard]] std::size_t row_bytes() const noexcept { return width * channels; }
};

// Decodes the pixels of the most common PNG files, not interlaced and with 8 bits per sample, in
// one piece. libpng requests one row at a time from zlib, which keeps zlib off its fast path if
// rows are short. Declines anything unusual, including damage: libpng decides what is wrong with a
// file. So a file that it decodes has valid checksums, and the same pixels as with libpng. Belongs
// to one thread.
class PngInflater {
 public:
  PngInflater();
  PngInflater(const PngInflater&) = delete;
  PngInflater& operator=(const PngInflater&) = delete;
  ~PngInflater();

  // Writes all pixels, rows from the top without padding: as RGB without alpha if `out` has three
  // bytes per pixel; as stored if it has one and the image has one channel. Returns false if it
  // declines; `out` is then unspecified. REQUIRES: libpng accepts `file` up to its first IDAT;
  // out.size() is 3 * pixels, or pixels if channels is 1.
  [[nodiscard]] bool decode(std::span<const std::byte> file, const PngShape& shape, std::span<std::uint8_t> out);

 private:
  struct End {
    void operator()(libdeflate_decompressor* decompressor) const noexcept;
  };

  // The content of all IDAT chunks; empty if one is damaged.
  std::span<const std::byte> compressed(std::span<const std::byte> file);

  std::unique_ptr<libdeflate_decompressor, End> decompressor_;  // null if built without libdeflate
  std::vector<std::byte> joined_;                               // several IDAT chunks
  std::vector<std::uint8_t> rows_;  // a row of zeros, then all rows, each after its filter byte
};

}  // namespace forebay::make
