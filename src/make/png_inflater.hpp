#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct libdeflate_decompressor;

namespace forebay {

// What a PNG's header says of its pixels.
struct PngShape {
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t channels = 0;  // 1 to 4, of 8 bits each
  [[nodiscard]] std::size_t row_bytes() const noexcept { return width * channels; }
};

// Decodes the pixels of the commonest PNG files, which are not interlaced and have 8 bits for a sample, in one piece.
// libpng asks zlib for one row after the other, which keeps it from its fast path where rows are short. Whatever is
// unusual about a file, damage included, makes it decline: what is wrong with a file, libpng decides. So a file that it
// decodes has all its checksums right, and the pixels that libpng would show. Belongs to one thread.
class PngInflater {
 public:
  PngInflater();
  PngInflater(const PngInflater&) = delete;
  PngInflater& operator=(const PngInflater&) = delete;
  ~PngInflater();

  // Writes all pixels, rows from the top without padding: as RGB where out has three bytes for a pixel, without alpha;
  // as they are stored where it has one and the image one channel. False when it declines; out may then hold anything.
  // REQUIRES: libpng accepts `file` up to its first IDAT; out.size() is 3 * pixels, or pixels where channels is 1.
  [[nodiscard]] bool decode(std::span<const std::byte> file, const PngShape& shape, std::span<std::uint8_t> out);

 private:
  struct End {
    void operator()(libdeflate_decompressor* decompressor) const noexcept;
  };

  // The content of all IDAT chunks; empty when one is damaged.
  std::span<const std::byte> compressed(std::span<const std::byte> file);

  std::unique_ptr<libdeflate_decompressor, End> decompressor_;  // null where it is not compiled in, or without memory
  std::vector<std::byte> joined_;                               // where there are several IDAT chunks
  std::vector<std::uint8_t> rows_;  // a row of zeros, then all rows, each behind a byte that names its filter
};

}  // namespace forebay
