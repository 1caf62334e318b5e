// The linked libjpeg-turbo as a reference: encodes an image of noise, and decodes the file both to
// pixels and to coefficients. Used at the start of a run by pixel_check.cpp, and by tests; never
// for a sample. libjpeg reports errors by longjmp(), so each of its calls runs inside completes(),
// and no stack frame in between holds anything with a destructor.

#include "libjpeg_images.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <span>

// jpeglib.h needs FILE and size_t before it.
#include <jpeglib.h>

namespace forebay::jpeg {
namespace {

// libjpeg reports errors through a callback that must not return. The callback longjmp()s to
// completes(), so no stack frame in between may hold anything with a destructor.
struct JumpingErrors {
  jpeg_error_mgr manager;  // first member: all that libjpeg knows of this
  std::jmp_buf escape;

  JumpingErrors() {
    jpeg_std_error(&manager);
    manager.error_exit = [](j_common_ptr info) {
      // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
      std::longjmp(reinterpret_cast<JumpingErrors*>(info->err)->escape, 1);
    };
    manager.output_message = [](j_common_ptr) {};
  }

  template <typename Step>
  [[nodiscard]] bool completes(const Step& step) {
    // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
    if (setjmp(escape) != 0) return false;
    step();
    return true;
  }
};

struct Decompressor {
  JumpingErrors errors;
  jpeg_decompress_struct info{};

  Decompressor() { info.err = &errors.manager; }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor() { jpeg_destroy_decompress(&info); }

  void read_header(std::span<const std::byte> file) {
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info, TRUE);
  }
};

struct Compressor {
  JumpingErrors errors;
  jpeg_compress_struct info{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  Compressor() { info.err = &errors.manager; }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
  ~Compressor() {
    jpeg_destroy_compress(&info);
    std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg's malloc()
  }
};

// The only component of a file is not interleaved, so its sampling factors mean nothing (T.81,
// A.2.2) and stay 1.
bool set_frame(const jpeg_decompress_struct& info, JpegFrame& frame) noexcept {
  frame = {};
  frame.width = static_cast<std::int32_t>(info.image_width);
  frame.height = static_cast<std::int32_t>(info.image_height);
  frame.components = static_cast<std::size_t>(info.num_components);
  switch (info.jpeg_color_space) {
    case JCS_GRAYSCALE: frame.colour = JpegColour::grey; break;
    case JCS_YCbCr: frame.colour = JpegColour::ycbcr; break;
    case JCS_RGB: frame.colour = JpegColour::rgb; break;
    default: return false;
  }
  for (std::size_t k = 0; k < frame.components; ++k) {
    const jpeg_component_info& part = info.comp_info[k];
    JpegComponent& component = frame.component[k];
    if (part.quant_table == nullptr) return false;
    if (frame.components > 1) {
      component.h = part.h_samp_factor;
      component.v = part.v_samp_factor;
    }
    std::copy_n(part.quant_table->quantval, kBlockSize, component.quantiser.begin());
  }
  frame.complete();
  return true;
}

}  // namespace

// jpeg_read_coefficients() returns blocks in natural order, in arrays that live only as long as the
// decompressor, so they are copied.
bool LibjpegCoefficients::open(std::span<const std::byte> file) {
  Decompressor from;
  jvirt_barray_ptr* arrays = nullptr;
  const bool read = from.errors.completes([&] {
    from.read_header(file);
    arrays = jpeg_read_coefficients(&from.info);
  });
  if (!read || !set_frame(from.info, frame_)) return false;
  for (std::size_t k = 0; k < frame_.components; ++k) {
    Plane& plane = planes_[k];
    plane.across = static_cast<std::int32_t>(from.info.comp_info[k].width_in_blocks);
    plane.down = static_cast<std::int32_t>(from.info.comp_info[k].height_in_blocks);
    const auto row_size = static_cast<std::size_t>(plane.across) * kBlockSize;
    plane.blocks.resize(row_size * static_cast<std::size_t>(plane.down));
    const bool copied = from.errors.completes([&] {
      for (std::int32_t y = 0; y < plane.down; ++y) {
        JBLOCKARRAY rows = from.info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&from.info), arrays[k],
                                                             static_cast<JDIMENSION>(y), 1, FALSE);
        std::copy_n(rows[0][0], row_size, plane.blocks.data() + row_size * static_cast<std::size_t>(y));
      }
    });
    if (!copied) return false;
  }
  return true;
}

// As in ScanDecoder::read(), the extent of a block is the zigzag position of its last coefficient.
bool LibjpegCoefficients::read(std::int32_t mcu_row, CoefficientRow& row) {
  for (std::size_t k = 0; k < row.components(); ++k) {
    const Plane& plane = planes_[k];
    const JpegComponent& component = frame_.component[k];
    for (std::int32_t r = 0; r < component.v; ++r) {
      const std::int32_t y = mcu_row * component.v + r;
      if (y >= plane.down) break;  // padding of the last MCU row is never seen
      std::int16_t* const blocks = row.blocks(k, static_cast<std::size_t>(r));
      std::uint8_t* const extents = row.extents(k, static_cast<std::size_t>(r));
      const std::int32_t left = row.left() * component.h;
      const std::int32_t end = std::min(row.right() * component.h, plane.across);
      for (std::int32_t x = left; x < end; ++x) {
        const auto block = static_cast<std::size_t>(x - left);
        const std::int16_t* const in =
            plane.blocks.data() + static_cast<std::size_t>(y * plane.across + x) * kBlockSize;
        for (std::size_t i = 0; i < kBlockSize; ++i) {
          const std::int16_t coefficient = in[kNaturalOrder[i]];
          if (coefficient == 0) continue;
          blocks[CoefficientRow::place_of(block) + CoefficientRow::kPlaces[i]] = coefficient;
          extents[block] = static_cast<std::uint8_t>(i);
        }
      }
    }
  }
  return true;
}

std::vector<std::byte> encoded_noise(const NoiseImage& image) {
  // Flat, smooth and rough parts, up to the extreme values. So some blocks keep few coefficients
  // and others all, and some samples are clamped.
  const std::size_t row_size = static_cast<std::size_t>(image.width) * 3;
  std::vector<std::uint8_t> pixels(row_size * static_cast<std::size_t>(image.height));
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    // The generator of Numerical Recipes, which gives the same noise everywhere.
    state = state * 1664525 + 1013904223;
    const std::size_t x = i % row_size / 3;
    const std::size_t y = i / row_size;
    const std::size_t base = (x * 5 + y * 3 + i % 3 * 70) % 256;
    const auto roughness = static_cast<std::uint32_t>(x / 24 % 3 * 127);
    const auto moved =
        static_cast<int>(base) + static_cast<int>((state >> 16) % (2 * roughness + 1)) - static_cast<int>(roughness);
    pixels[i] = static_cast<std::uint8_t>(std::clamp(moved, 0, 255));
  }
  Compressor to;
  const bool done = to.errors.completes([&] {
    jpeg_create_compress(&to.info);
    jpeg_mem_dest(&to.info, &to.bytes, &to.size);
    to.info.image_width = static_cast<JDIMENSION>(image.width);
    to.info.image_height = static_cast<JDIMENSION>(image.height);
    to.info.input_components = 3;
    to.info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&to.info);
    if (image.grey) jpeg_set_colorspace(&to.info, JCS_GRAYSCALE);
    jpeg_set_quality(&to.info, image.quality, TRUE);
    to.info.comp_info[0].h_samp_factor = image.h;
    to.info.comp_info[0].v_samp_factor = image.v;
    jpeg_start_compress(&to.info, TRUE);
    while (to.info.next_scanline < to.info.image_height) {
      JSAMPROW row = pixels.data() + row_size * to.info.next_scanline;
      jpeg_write_scanlines(&to.info, &row, 1);
    }
    jpeg_finish_compress(&to.info);
  });
  if (!done) return {};
  const auto bytes = std::as_bytes(std::span(to.bytes, to.size));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::uint8_t> decoded_by_libjpeg(std::span<const std::byte> file, bool luma) {
  Decompressor from;
  const bool started = from.errors.completes([&] {
    from.read_header(file);
    from.info.out_color_space = luma ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&from.info);
  });
  if (!started) return {};
  const std::size_t row_size = from.info.output_width * static_cast<std::size_t>(from.info.output_components);
  std::vector<std::uint8_t> pixels(row_size * from.info.output_height);
  const bool done = from.errors.completes([&] {
    while (from.info.output_scanline < from.info.output_height) {
      JSAMPROW row = pixels.data() + row_size * from.info.output_scanline;
      jpeg_read_scanlines(&from.info, &row, 1);
    }
  });
  if (!done) return {};
  return pixels;
}

}  // namespace forebay::jpeg
