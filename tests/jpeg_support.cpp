#include "jpeg_support.hpp"

#include <array>
#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string_view>

#include <jerror.h>

#include <forebay/random.hpp>

// Makes JPEG files with libjpeg for the tests, and the pixels that libjpeg itself decodes from
// them.
namespace forebay::testing {
namespace {

// One DC scan and, for each of the 63 AC coefficients, a scan for its upper bits and one for its
// last bit.
std::vector<jpeg_scan_info> one_coefficient_per_scan() {
  std::vector<jpeg_scan_info> scans;
  const auto add = [&](int start, int end, int high, int low) {
    jpeg_scan_info scan{};
    scan.comps_in_scan = 1;
    scan.Ss = start;
    scan.Se = end;
    scan.Ah = high;
    scan.Al = low;
    scans.push_back(scan);
  };
  add(0, 0, 0, 0);
  for (int k = 1; k < 64; ++k) add(k, k, 0, 1);
  for (int k = 1; k < 64; ++k) add(k, k, 1, 0);
  return scans;
}

jpeg_scan_info scan_of(std::initializer_list<int> components, int start, int end, int low) {
  jpeg_scan_info scan{};
  for (const int component : components) scan.component_index[scan.comps_in_scan++] = component;
  scan.Ss = start;
  scan.Se = end;
  scan.Al = low;
  return scan;
}

std::vector<jpeg_scan_info> scans_of(const Recipe& recipe) {
  if (recipe.many_scans) return one_coefficient_per_scan();
  std::vector<jpeg_scan_info> scans;
  for (int component = 0; component < recipe.components; ++component) {
    if (recipe.separate_scans) scans.push_back(scan_of({component}, 0, 63, 0));
    if (recipe.rough) scans.push_back(scan_of({component}, 0, 0, 0));
  }
  if (recipe.rough) scans.push_back(scan_of({0}, 1, 2, 1));
  return scans;
}

// Records libjpeg's warnings and errors for a file.
struct HeardErrors {
  jpeg_error_mgr manager{};  // must be first: libjpeg knows only this
  std::jmp_buf escape{};
  int damage = 0;
  int oddities = 0;

  static HeardErrors& of(j_common_ptr info) { return *reinterpret_cast<HeardErrors*>(info->err); }
  static void hear(j_common_ptr info, int level) {
    if (level >= 0) return;
    const int code = info->err->msg_code;
    const bool is_first = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number == 0;
    const bool is_odd = code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR || code == JWRN_NOT_SEQUENTIAL ||
                        (code == JWRN_EXTRANEOUS_DATA && is_first);
    ++(is_odd ? of(info).oddities : of(info).damage);
  }
};

// False if libjpeg gave up. No stack frame between here and libjpeg may hold an object with a
// destructor.
bool runs_through(jpeg_decompress_struct& info, HeardErrors& heard, std::FILE* stream, std::vector<JSAMPLE>& row) {
  // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
  if (setjmp(heard.escape) != 0) return false;
  jpeg_create_decompress(&info);
  jpeg_stdio_src(&info, stream);
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  row.resize(std::size_t{info.output_width} * static_cast<std::size_t>(info.output_components));
  while (info.output_scanline < info.output_height) {
    JSAMPROW to = row.data();
    jpeg_read_scanlines(&info, &to, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

DjpegVerdict djpeg_verdict(std::span<const std::byte> file) {
  if (file.empty()) return DjpegVerdict::damaged;
  std::vector<std::byte> copy(file.begin(), file.end());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(::fmemopen(copy.data(), copy.size(), "rb"), std::fclose);
  jpeg_decompress_struct info{};
  HeardErrors heard;
  std::vector<JSAMPLE> row;
  info.err = jpeg_std_error(&heard.manager);
  heard.manager.emit_message = HeardErrors::hear;
  heard.manager.output_message = [](j_common_ptr) {};
  heard.manager.error_exit = [](j_common_ptr common) {
    // NOLINTNEXTLINE(modernize-avoid-setjmp-longjmp,cert-err52-cpp): the way out of a C library's callback
    std::longjmp(HeardErrors::of(common).escape, 1);
  };
  const bool is_through = runs_through(info, heard, stream.get(), row);
  jpeg_destroy_decompress(&info);
  if (!is_through || heard.damage > 0) return DjpegVerdict::damaged;
  return heard.oddities > 0 ? DjpegVerdict::odd_header : DjpegVerdict::whole;
}

std::vector<std::uint8_t> test_pixels(int width, int height, int components) {
  Random random(key64(1, width, height, components));
  std::vector<double> across;
  for (int x = 0; x < width; ++x) {
    for (int c = 0; c < components; ++c) across.push_back(80 * std::sin(0.11 * x * (c + 1)));
  }
  std::vector<std::uint8_t> pixels;
  pixels.reserve(across.size() * static_cast<std::size_t>(height));
  for (int y = 0; y < height; ++y) {
    std::array<double, 4> down{};
    for (int c = 0; c < components; ++c) down[static_cast<std::size_t>(c)] = std::cos(0.07 * y + c);
    for (std::size_t at = 0; at < across.size(); ++at) {
      const double wave = 110 + across[at] * down[at % static_cast<std::size_t>(components)];
      pixels.push_back(static_cast<std::uint8_t>(wave + random.uniform(0, 60)));
    }
  }
  return pixels;
}

std::vector<std::byte> make_jpeg(const Recipe& recipe) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // exits on error, which valid recipes never cause
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(recipe.width);
  info.image_height = static_cast<JDIMENSION>(recipe.height);
  info.input_components = recipe.components;
  info.in_color_space = recipe.input;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, recipe.stored);
  jpeg_set_quality(&info, 85, TRUE);
  if (!recipe.subsampled) info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
  info.optimize_coding = recipe.optimised ? TRUE : FALSE;
  for (std::size_t i = 0; i < recipe.sampling.size(); ++i) {
    info.comp_info[i].h_samp_factor = recipe.sampling[i].first;
    info.comp_info[i].v_samp_factor = recipe.sampling[i].second;
  }
  info.arith_code = recipe.arithmetic ? TRUE : FALSE;
  info.restart_interval = static_cast<unsigned>(recipe.restart_interval);
  const auto scans = scans_of(recipe);
  if (recipe.progressive) jpeg_simple_progression(&info);
  if (!scans.empty()) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  if (!recipe.app1.empty()) {
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(recipe.app1.data()),
                      static_cast<unsigned>(recipe.app1.size()));
  }
  auto pixels = test_pixels(recipe.width, recipe.height, recipe.components);
  for (int y = 0; y < recipe.height; ++y) {
    JSAMPROW row = pixels.data() + static_cast<std::ptrdiff_t>(y) * recipe.width * recipe.components;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto bytes = std::as_bytes(std::span(buffer, size));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  std::free(buffer);
  return file;
}

std::vector<std::byte> exif_segment(int orientation) {
  constexpr std::string_view kText("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0?\0\0\0\0\0\0\0", 32);
  const auto text = std::as_bytes(std::span(kText));
  std::vector<std::byte> segment(text.begin(), text.end());
  segment[24] = static_cast<std::byte>(orientation);
  return segment;
}

std::vector<std::uint8_t> plain_decode(std::span<const std::byte> file, bool luma) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  if (luma && info.num_components < 4) info.out_color_space = JCS_GRAYSCALE;
  jpeg_start_decompress(&info);
  std::vector<std::uint8_t> row(std::size_t{info.output_width} * static_cast<std::size_t>(info.output_components));
  std::vector<std::uint8_t> rgb;
  while (info.output_scanline < info.output_height) {
    JSAMPROW to = row.data();
    jpeg_read_scanlines(&info, &to, 1);
    for (std::size_t x = 0; x < info.output_width; ++x) {
      const std::uint8_t* pixel = row.data() + x * static_cast<std::size_t>(info.output_components);
      for (std::size_t c = 0; c < 3; ++c) {
        if (info.output_components == 4) {
          rgb.push_back(static_cast<std::uint8_t>(double{1} * pixel[c] * pixel[3] / 255.0 + 0.5));
        } else {
          rgb.push_back(pixel[info.output_components == 1 ? 0 : c]);
        }
      }
    }
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return rgb;
}

}  // namespace forebay::testing
