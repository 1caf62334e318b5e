#pragma once

#include <cstddef>
#include <cstdio>
#include <span>

// jpeglib.h needs FILE and size_t before it.
#include <jpeglib.h>

namespace forebay::make {

// The memory of one libjpeg object after another. libjpeg takes what an image needs from malloc and gives all of it
// back, and malloc hands that much back to the system: for a small image, the page faults cost more than its decoding.
// Here an object gets its memory from one block, which the next one uses again. Nothing in the block is zeroed
// in between, as nothing from malloc is. AddressSanitizer is told what was given out, part by part and row by row.
//
// A block that grew beyond kKeptBytes is freed after kPatience objects in a row that would have done with less.
// Belongs to one thread. Its functions, being called by libjpeg, report failure as libjpeg does and throw nothing.
class JpegMemory : private jpeg_memory_mgr {
 public:
  static constexpr std::size_t kKeptBytes = std::size_t{32} << 20;
  static constexpr int kPatience = 64;

  JpegMemory() noexcept;
  ~JpegMemory() { free_blocks(); }
  JpegMemory(const JpegMemory&) = delete;
  JpegMemory& operator=(const JpegMemory&) = delete;

  // From now on, until it is destroyed, the object takes its memory from here, at most info.mem->max_memory_to_use
  // bytes when that is not 0. REQUIRES: it was just created, and the object served before it is destroyed.
  void serve(jpeg_decompress_struct& info) noexcept;

  // The system refused memory to the object that was served last.
  [[nodiscard]] bool was_refused() const noexcept { return was_refused_; }

  // Bytes that are held now.
  [[nodiscard]] std::size_t held() const noexcept;

 private:
  struct Block;   // followed by its bytes
  struct Blocks;  // an array of coefficients, which libjpeg calls virtual

  static JpegMemory& of(j_common_ptr info) noexcept { return *static_cast<JpegMemory*>(info->mem); }
  void* take(j_common_ptr info, std::size_t wanted) noexcept;
  bool add_block(std::size_t bytes) noexcept;
  void rewind() noexcept;
  void free_blocks() noexcept;
  template <typename Row>
  static Row* take_rows(j_common_ptr info, std::size_t row_bytes, JDIMENSION rows) noexcept;

  jpeg_memory_mgr* own_ = nullptr;  // what the object came with
  Block* newest_ = nullptr;
  std::size_t used_ = 0;    // bytes of the newest block
  std::size_t taken_ = 0;   // bytes of this object in all
  std::size_t wanted_ = 0;  // what the last object took that one block did not hold
  bool was_refused_ = false;
  int unneeded_ = 0;  // objects in a row that would have done with kKeptBytes
};

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
