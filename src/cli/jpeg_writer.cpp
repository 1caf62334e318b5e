#include "drawing.hpp"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <jpeglib.h>

#include <forebay/error.hpp>

namespace forebay {
namespace {

struct ErrorManager {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  manager->base.format_message(info, manager->message.data());
  std::longjmp(manager->back, 1);
}

struct Encoder {
  jpeg_compress_struct info{};
  ErrorManager errors{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  Encoder() {
    info.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = on_error;
  }
  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(bytes);  // libjpeg allocated it
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
};

// False after an error. Between setjmp and its return lives nothing that has a destructor.
bool encode(Encoder& encoder, const RgbImage& image, int quality) {
  if (setjmp(encoder.errors.back) != 0) return false;
  jpeg_compress_struct& info = encoder.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &encoder.bytes, &encoder.size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  info.dct_method = JDCT_ISLOW;
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  const std::size_t stride = static_cast<std::size_t>(image.width) * 3;
  while (info.next_scanline < info.image_height) {
    auto row = const_cast<JSAMPROW>(image.bytes.data() + info.next_scanline * stride);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

std::vector<std::byte> encode_jpeg(const RgbImage& image, int quality) {
  Encoder encoder;
  if (!encode(encoder, image, quality)) {
    throw Error("cannot encode a JPEG of " + std::to_string(image.width) + " x " + std::to_string(image.height) +
                " pixels: " + encoder.errors.message.data());
  }
  const auto* first = reinterpret_cast<const std::byte*>(encoder.bytes);
  return {first, first + encoder.size};
}

}  // namespace forebay
