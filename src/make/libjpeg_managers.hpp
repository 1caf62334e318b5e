#pragma once

#include <cstddef>
#include <cstdio>
#include <span>

// jpeglib.h needs FILE and size_t before it.
#include <jpeglib.h>

namespace forebay::make {

// The memory for successive libjpeg objects. libjpeg allocates what an image needs and frees all of
// it, and malloc returns that much to the system; for a small image the page faults cost more than
// decoding. Here the memory for an object comes from blocks, normally one, that are reused for the
// next object. As with malloc, it is not zeroed. AddressSanitizer is told what was handed out,
// allocation by allocation and row by row.
//
// A block that grew beyond kKeptBytes is freed after kPatience consecutive objects that would have
// needed less. Belongs to one thread. libjpeg calls its functions, so they report errors as libjpeg
// does and throw nothing.
class JpegMemory : private jpeg_memory_mgr {
 public:
  static constexpr std::size_t kKeptBytes = std::size_t{32} << 20;
  static constexpr int kPatience = 64;

  JpegMemory() noexcept;
  ~JpegMemory() { free_blocks(); }
  JpegMemory(const JpegMemory&) = delete;
  JpegMemory& operator=(const JpegMemory&) = delete;

  // Makes the object allocate from here until it is destroyed, at most info.mem->max_memory_to_use
  // bytes unless that is 0. REQUIRES: the object was just created, and the previous one has been
  // destroyed.
  void serve(jpeg_decompress_struct& info) noexcept;

  // Whether the system refused memory to the last object served.
  [[nodiscard]] bool was_refused() const noexcept { return was_refused_; }

  // Bytes held now.
  [[nodiscard]] std::size_t held() const noexcept;

 private:
  struct Block;   // a header, followed by the block's bytes
  struct Blocks;  // an array of coefficients, which libjpeg calls virtual

  static JpegMemory& of(j_common_ptr info) noexcept { return *static_cast<JpegMemory*>(info->mem); }
  void* take(j_common_ptr info, std::size_t wanted) noexcept;
  bool add_block(std::size_t bytes) noexcept;
  void rewind() noexcept;
  void free_blocks() noexcept;
  template <typename Row>
  static Row* take_rows(j_common_ptr info, std::size_t row_bytes, JDIMENSION rows) noexcept;

  jpeg_memory_mgr* own_ = nullptr;  // the manager that libjpeg created for the object
  Block* newest_ = nullptr;
  std::size_t used_ = 0;    // bytes of the newest block
  std::size_t taken_ = 0;   // bytes that this object took in all
  std::size_t wanted_ = 0;  // bytes that the last object took, if one block was not enough; else 0
  bool was_refused_ = false;
  int unneeded_ = 0;  // consecutive objects for which kKeptBytes would have been enough
};

// Passes a file in memory to libjpeg in the same pieces in which djpeg reads a file. While a piece
// holds at least a whole MCU more, libjpeg-turbo uses a faster loop that silently takes an invalid
// Huffman code for the end of a block; near the end of a piece it reports "bad Huffman code". So
// its warnings depend on the pieces, and with these they are djpeg's
// (docs/decisions/0003-jpeg-warnings-are-bad-samples.md).
class JpegSource : private jpeg_source_mgr {
 public:
  // As djpeg: INPUT_BUF_SIZE in jdatasrc.c.
  static constexpr std::size_t kPieceBytes = 4096;

  JpegSource() noexcept;
  JpegSource(const JpegSource&) = delete;
  JpegSource& operator=(const JpegSource&) = delete;

  // Makes the object read these bytes; both the bytes and this must stay valid. REQUIRES: the
  // object was just created.
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
