#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

// jpeglib.h needs FILE and size_t before it.
#include <jpeglib.h>

#include "image.hpp"
#include "jpeg_decoder.hpp"
#include "libjpeg_managers.hpp"

namespace forebay::make {

// A JPEG file whose header libjpeg has read.
struct OpenJpeg {
  const jpeg_decompress_struct& info;
  std::span<const std::byte> bytes;  // the whole file
  std::span<const std::byte> scans;  // everything after the header
  int orientation;                   // as in JpegHeader
  bool grey;                         // as in ImageOptions

  [[nodiscard]] std::int32_t width() const noexcept { return static_cast<std::int32_t>(info.image_width); }
  [[nodiscard]] std::int32_t height() const noexcept { return static_cast<std::int32_t>(info.image_height); }
  // Whether there is an end-of-image marker. A truncated file has none, whichever part of it is
  // decoded.
  [[nodiscard]] bool has_end_marker() const noexcept;
};

// Implements JpegDecoder with libjpeg alone, for every file and with all of its guarantees. Belongs
// to one thread.
//
// libjpeg reports errors through a callback that must not return. The callback longjmp()s to
// require(), so no stack frame between require() and libjpeg may hold anything with a destructor.
class LibjpegDecoder {
 public:
  LibjpegDecoder() noexcept;
  LibjpegDecoder(const LibjpegDecoder&) = delete;
  LibjpegDecoder& operator=(const LibjpegDecoder&) = delete;
  ~LibjpegDecoder() { close(); }

  // As in JpegDecoder.
  ImageSize open(std::span<const std::byte> bytes, const ImageOptions& options);
  [[nodiscard]] JpegHeader header() const noexcept;
  void decode(const Box& region, std::int32_t shrink, Image& out);

  // REQUIRES: as header().
  [[nodiscard]] OpenJpeg opened() const noexcept {
    return {.info = info_,
            .bytes = bytes_,
            .scans = bytes_.subspan(scan_begin_),
            .orientation = orientation_,
            .grey = grey_};
  }
  // Closes the open file, if any. Each image gets a new libjpeg object. A reused one would keep the
  // tables of earlier images, so whether a file without tables decodes would depend on the images
  // before it. The memory is reused.
  void close() noexcept { jpeg_destroy_decompress(&info_); }

 private:
  static LibjpegDecoder& of(j_common_ptr info) noexcept { return *static_cast<LibjpegDecoder*>(info->client_data); }
  static void on_error(j_common_ptr info);
  static void on_message(j_common_ptr info, int level);
  static void on_progress(j_common_ptr info);
  [[nodiscard]] bool is_header_odd(int warning) const noexcept;
  template <typename... Values>
  [[noreturn]] void escape(const char* format, Values... values) noexcept;
  [[nodiscard]] const char* libjpeg_message() noexcept;
  template <typename Step>
  void require(const Step& step);

  [[nodiscard]] std::int32_t stored_width() const noexcept { return static_cast<std::int32_t>(info_.image_width); }
  [[nodiscard]] std::int32_t stored_height() const noexcept { return static_cast<std::int32_t>(info_.image_height); }
  [[nodiscard]] std::int32_t output_height() const noexcept { return static_cast<std::int32_t>(info_.output_height); }

  void read_header(const ImageOptions& options);
  void check_header(const ImageOptions& options);
  [[nodiscard]] int stored_orientation() const noexcept;
  void start(std::int32_t shrink) noexcept;
  [[nodiscard]] bool has_common_sampling() const noexcept;
  [[nodiscard]] bool is_plain() const noexcept;
  [[nodiscard]] bool smooths_blocks() const noexcept;
  [[nodiscard]] bool enlarges_chroma_twice(std::int32_t shrink) const noexcept;
  [[nodiscard]] bool changes_upsampling(std::int32_t width) const noexcept;
  [[nodiscard]] Box needed_part(const Box& wanted, std::int32_t shrink) const noexcept;
  void crop(Box& part) noexcept;
  void require_end_marker() const;
  void make_room(const Box& part, std::int32_t shrink, Image& out);
  void read_row(std::uint8_t* to) noexcept;
  void read_part(const Box& part, Image& out) noexcept;
  void read_rows(const Box& part, Image& out) noexcept;

  JpegMemory memory_;
  JpegSource source_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf escape_{};
  std::array<char, JMSG_LENGTH_MAX> libjpeg_message_{};
  std::array<char, JMSG_LENGTH_MAX + 32> message_{};
  std::span<const std::byte> bytes_;  // of the open image
  std::size_t scan_begin_ = 0;        // offset of the end of the header
  int orientation_ = 1;
  bool grey_ = false;
  std::vector<std::uint8_t> cmyk_;   // one row
  std::vector<std::uint8_t> strip_;  // kStripRows rows of RGB
};

}  // namespace forebay::make
