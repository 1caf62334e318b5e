#pragma once

#include <cstddef>
#include <cstdio>
#include <span>

// jpeglib.h needs FILE and size_t before it.
#include <jpeglib.h>

namespace forebay::make {

// Hands libjpeg a file in memory in the pieces in which djpeg reads one. Where a piece has room for a whole MCU,
// libjpeg-turbo decodes it by a faster loop that takes a word that its Huffman code does not have for the end of a
// block, and says nothing; near the end of a piece it says "bad Huffman code". So what it says depends on the pieces,
// and with these it is what djpeg says. (decisions/0003)
class JpegSource : private jpeg_source_mgr {
 public:
  // djpeg's, INPUT_BUF_SIZE in jdatasrc.c.
  static constexpr std::size_t kPieceBytes = 4096;

  JpegSource() noexcept;
  JpegSource(const JpegSource&) = delete;
  JpegSource& operator=(const JpegSource&) = delete;

  // The object reads these bytes from now on. Both must stay. REQUIRES: it was just created
  void serve(jpeg_decompress_struct& info, std::span<const std::byte> bytes) noexcept;

  // How many bytes libjpeg has read.
  [[nodiscard]] std::size_t position() const noexcept { return given_ - bytes_in_buffer; }

 private:
  static JpegSource& of(j_decompress_ptr info) noexcept { return *static_cast<JpegSource*>(info->src); }
  void give_next(j_decompress_ptr info) noexcept;

  std::span<const std::byte> bytes_;
  std::size_t given_ = 0;
};

}  // namespace forebay::make
