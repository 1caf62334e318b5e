#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pack_tables.hpp"
#include "packed_jpeg.hpp"

namespace forebay::pack {

// Converts JPEG files to packed ones, which decode faster to the same pixels, and back to the same
// files, byte by byte. One packer belongs to one thread; its memory is reused from file to file.
class JpegPacker {
 public:
  explicit JpegPacker(PackTables tables);
  JpegPacker(JpegPacker&&) noexcept;
  JpegPacker& operator=(JpegPacker&&) noexcept;
  ~JpegPacker();

  // Packs a sequential, Huffman-coded 8-bit file with one scan of one or three components. The
  // result was verified by unpacking it. Returns none for any other file: damaged, progressive,
  // arithmetic, 12-bit, CMYK, or with a scan that re-encoding does not reproduce (for example one
  // with superfluous zeros).
  [[nodiscard]] std::optional<std::vector<std::byte>> pack(std::span<const std::byte> file);

  // The original file. Throws SampleError if the bytes are damaged or were packed with other tables.
  [[nodiscard]] std::vector<std::byte> unpack(std::span<const std::byte> packed);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::pack
