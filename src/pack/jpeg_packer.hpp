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

// Turns JPEG files into packed ones, which decode faster to the same pixels, and back into the same files, byte by
// byte. One packer belongs to one thread; its memory is reused from file to file.
class JpegPacker {
 public:
  explicit JpegPacker(PackTables tables);
  JpegPacker(JpegPacker&&) noexcept;
  JpegPacker& operator=(JpegPacker&&) noexcept;
  ~JpegPacker();

  // Packs a sequential, Huffman-coded file of 8 bits with one scan of one or three components. What it returns has been
  // unpacked and compared with the file. Nothing for every other file: damaged, progressive, arithmetic, of 12 bits,
  // CMYK, or with a scan that its own codes do not give back (one with superfluous zeros, say).
  [[nodiscard]] std::optional<std::vector<std::byte>> pack(std::span<const std::byte> file);

  // The file that was packed. Throws SampleError when the bytes are damaged or were packed with other tables.
  [[nodiscard]] std::vector<std::byte> unpack(std::span<const std::byte> packed);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// JpegPacker::unpack() by a packer for this file alone.
[[nodiscard]] std::vector<std::byte> unpack_jpeg(std::span<const std::byte> packed, const PackTables& tables);

}  // namespace forebay::pack
