#pragma once

#include <cstdio>  // for jpeglib.h

#include <jpeglib.h>

#include "jpeg_parts.hpp"
#include "test.hpp"

// Makes files with every combination of sampling factors of three components.
namespace forebay::testing {

using Factors = std::array<int, 3>;  // of the three components, along one axis

inline constexpr int kWidest = 70;
inline constexpr int kHighest = 70;
inline constexpr int kBlock = 8;
inline constexpr int kBlocksOfAnMcu = 10;

// libjpeg decodes factors that divide the largest one, and refuses the others.
inline std::vector<Factors> decodable_factors() {
  std::vector<Factors> all;
  for (int a = 1; a <= 4; ++a) {
    for (int b = 1; b <= 4; ++b) {
      for (int c = 1; c <= 4; ++c) {
        const int most = std::max({a, b, c});
        if (most % a == 0 && most % b == 0 && most % c == 0) all.push_back({a, b, c});
      }
    }
  }
  return all;
}

inline int blocks_along(int side, int factor, int most) {
  const int samples = (side * factor + most - 1) / most;
  const int count = (samples + kBlock - 1) / kBlock;
  return (count + factor - 1) / factor * factor;
}

// Fills a component with blocks of random colour and a little texture.
inline void fill(jpeg_compress_struct& info, jvirt_barray_ptr array, int component, JDIMENSION rows, JDIMENSION columns,
                 Random& random) {
  for (JDIMENSION y = 0; y < rows; ++y) {
    JBLOCKARRAY row = info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&info), array, y, 1, TRUE);
    for (JDIMENSION x = 0; x < columns; ++x) {
      auto& block = row[0][x];
      block[0] = static_cast<JCOEF>(below(random, component == 0 ? 80 : 120) - 50);
      for (int i = 0; i < 4; ++i) block[1 + below(random, 20)] = static_cast<JCOEF>(below(random, 21) - 10);
    }
  }
}

// A file made from coefficients, because libjpeg cannot sample pixels in all of these ways.
// Interleaved if it can be, otherwise with a scan for each component.
inline std::vector<std::byte> make_sampled_file(const Factors& across, const Factors& down, Random& random,
                                                int quality = 75, make::ImageSize image = {kWidest, kHighest}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // exits on error, which valid input never causes
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_YCbCr;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  std::array<jvirt_barray_ptr, 3> arrays{};
  std::array<JDIMENSION, 3> columns{};
  std::array<JDIMENSION, 3> rows{};
  std::array<jpeg_scan_info, 3> scans{};
  int blocks_of_mcu = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    info.comp_info[i].h_samp_factor = across[i];
    info.comp_info[i].v_samp_factor = down[i];
    blocks_of_mcu += across[i] * down[i];
    columns[i] = static_cast<JDIMENSION>(blocks_along(image.width, across[i], *std::ranges::max_element(across)));
    rows[i] = static_cast<JDIMENSION>(blocks_along(image.height, down[i], *std::ranges::max_element(down)));
    arrays[i] = info.mem->request_virt_barray(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE, TRUE, columns[i],
                                              rows[i], static_cast<JDIMENSION>(down[i]));
    scans[i].comps_in_scan = 1;
    scans[i].component_index[0] = static_cast<int>(i);
    scans[i].Se = DCTSIZE2 - 1;
  }
  if (blocks_of_mcu > kBlocksOfAnMcu) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_write_coefficients(&info, arrays.data());
  for (std::size_t i = 0; i < 3; ++i) fill(info, arrays[i], static_cast<int>(i), rows[i], columns[i], random);
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto bytes = std::as_bytes(std::span(buffer, size));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  std::free(buffer);
  return file;
}

// Writes another size into the header. A smaller image takes fewer blocks from each scan, in
// another arrangement; libjpeg skips the surplus with a warning.
inline void set_size(std::vector<std::byte>& file, make::ImageSize size) {
  static constexpr std::array kFrame{std::byte{0xff}, std::byte{0xc0}};
  const auto frame = std::search(file.begin(), file.end(), kFrame.begin(), kFrame.end());
  REQUIRE(frame != file.end());
  const auto store = [&](std::ptrdiff_t at, std::int32_t value) {
    frame[at] = static_cast<std::byte>(value >> 8);
    frame[at + 1] = static_cast<std::byte>(value & 0xff);
  };
  store(5, size.height);
  store(7, size.width);
}

inline std::string text_of(const Factors& across, const Factors& down) {
  std::string text;
  for (std::size_t i = 0; i < 3; ++i) text += std::to_string(across[i]) + "x" + std::to_string(down[i]) + " ";
  return text;
}

}  // namespace forebay::testing
