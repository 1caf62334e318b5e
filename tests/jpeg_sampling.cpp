#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <jpeglib.h>

#include <forebay/error.hpp>

#include "jpeg_parts.hpp"
#include "make/jpeg_decoder.hpp"
#include "support.hpp"

// Parts of an image against all of it, for every way in which three components can be sampled.
namespace {

using forebay::Box;
using forebay::Image;
using forebay::ImageSize;
using forebay::JpegDecoder;
using forebay::Random;
using forebay::testing::below;

using Bytes = std::vector<std::byte>;
using Factors = std::array<int, 3>;  // of the three components, along one axis

constexpr int kWidest = 70;
constexpr int kHighest = 70;
constexpr int kBlock = 8;
constexpr int kBlocksOfAnMcu = 10;

// libjpeg decodes factors that divide the largest one, and refuses the others.
std::vector<Factors> decodable_factors() {
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

int blocks(int side, int factor, int most) {
  const int samples = (side * factor + most - 1) / most;
  const int count = (samples + kBlock - 1) / kBlock;
  return (count + factor - 1) / factor * factor;
}

// Blocks of random colour with a little texture.
void fill(jpeg_compress_struct& info, jvirt_barray_ptr array, int component, JDIMENSION rows, JDIMENSION columns,
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

// A file of kWidest x kHighest, made of coefficients: libjpeg cannot sample pixels in all of these ways. Interleaved
// where a file can be, else a scan for each component.
Bytes make_file(const Factors& across, const Factors& down, Random& random) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // exits on error: what is made is right
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = kWidest;
  info.image_height = kHighest;
  info.input_components = 3;
  info.in_color_space = JCS_YCbCr;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 75, TRUE);
  std::array<jvirt_barray_ptr, 3> arrays{};
  std::array<JDIMENSION, 3> columns{};
  std::array<JDIMENSION, 3> rows{};
  std::array<jpeg_scan_info, 3> scans{};
  int blocks_of_mcu = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    info.comp_info[i].h_samp_factor = across[i];
    info.comp_info[i].v_samp_factor = down[i];
    blocks_of_mcu += across[i] * down[i];
    columns[i] = static_cast<JDIMENSION>(blocks(kWidest, across[i], *std::ranges::max_element(across)));
    rows[i] = static_cast<JDIMENSION>(blocks(kHighest, down[i], *std::ranges::max_element(down)));
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
  Bytes file(bytes.begin(), bytes.end());
  std::free(buffer);
  return file;
}

// Writes another size into the header. A smaller image takes fewer blocks out of each scan, in another arrangement;
// what is left over is surplus, which decoders skip.
void set_size(Bytes& file, ImageSize size) {
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

// Any region, or one that begins near the right edge, where a part is narrow.
Box region_of(Random& random, ImageSize size, bool at_edge) {
  Box region = forebay::testing::random_region(random, size);
  if (at_edge)
    region = {size.width - 1 - below(random, std::min(size.width, 4)), region.top, size.width, region.bottom};
  return region;
}

std::string text_of(const Factors& across, const Factors& down) {
  std::string text;
  for (std::size_t i = 0; i < 3; ++i) text += std::to_string(across[i]) + "x" + std::to_string(down[i]) + " ";
  return text;
}

class Comparison {
 public:
  explicit Comparison(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] Random& random() noexcept { return random_; }
  [[nodiscard]] int compared() const noexcept { return compared_; }

  // Some regions of the file against all of it, at one scale.
  void compare(const Bytes& file, ImageSize size, std::int32_t shrink, const std::string& sampling) {
    decoder_.open(file, {});
    decoder_.decode({0, 0, size.width, size.height}, shrink, image_);
    for (const bool at_edge : {false, true}) {
      const Box region = region_of(random_, size, at_edge);
      decoder_.open(file, {});
      decoder_.decode(region, shrink, part_);
      const bool equal = forebay::testing::is_part_of(part_, image_, region);
      CHECK_MESSAGE(equal, sampling << forebay::testing::text_of(region) << " of " << size.width << "x" << size.height
                                    << " at 1/" << shrink);
      ++compared_;
    }
  }

 private:
  Random random_;
  JpegDecoder decoder_;
  Image image_;
  Image part_;
  int compared_ = 0;
};

}  // namespace

// Every pair of a sampling along one axis and a width is compared, each with several samplings along the other axis.
TEST_CASE("a region has the pixels of the full decode: every sampling of three components, widths 1 to 70") {
  constexpr std::uint64_t kSeed = 22;
  constexpr std::array<std::int32_t, 6> kShrinks{1, 1, 1, 2, 4, 8};
  constexpr std::size_t kStep = forebay::testing::kSanitized ? 11 : 1;
  MESSAGE("seed " << kSeed);
  Comparison comparison(kSeed);
  Random& random = comparison.random();
  const std::vector<Factors> factors = decodable_factors();
  CHECK(factors.size() == 34);
  for (const Factors& across : factors) {
    for (std::size_t d = 0; d < factors.size(); ++d) {
      const Factors& down = factors[d];
      Bytes file = make_file(across, down, random);
      const std::string sampling = text_of(across, down);
      for (auto width = static_cast<std::int32_t>(1 + d % kStep); width <= kWidest; width += kStep) {
        const ImageSize size{width, 1 + below(random, below(random, 3) == 0 ? kHighest : 24)};
        set_size(file, size);
        comparison.compare(file, size, kShrinks[random.below(kShrinks.size())], sampling);
      }
    }
  }
  CHECK(comparison.compared() > 9'000);
}
