#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

// jpeglib.h needs FILE and size_t before it.
#include <jpeglib.h>

#include "jpeg/libjpeg_images.hpp"
#include "jpeg/pixel_stage.hpp"
#include "make/transform.hpp"
#include "measure.hpp"

// What pixels cost once the coefficients are there: libjpeg-turbo's inverse DCT, upsampling and colours, and ours, for
// random-resized crops of a folder of JPEG files. All take the coefficients from memory, and turns every few images.
namespace {

using namespace forebay;

constexpr int kRounds = 7;
constexpr std::size_t kMostFiles = 400;
constexpr std::size_t kPass = 20;  // images in a row in one mode

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Coefficients of a file in memory, each block in natural order.
class Stored final : public CoefficientSource {
 public:
  bool open(std::span<const std::byte> file) {
    LibjpegCoefficients all;
    if (!all.open(file)) return false;
    frame = all.frame();
    header.assign(file.begin(), file.end());
    CoefficientRow row;
    const McuRegion mcus{0, 0, frame.mcus_across, frame.mcus_down};
    for (std::int32_t y = 0; y < frame.mcus_down; ++y) {
      row.reset(frame, frame.components, mcus);
      if (!all.read(y, row)) return false;
      for (std::size_t k = 0; k < frame.components; ++k) {
        for (std::size_t r = 0; r < static_cast<std::size_t>(frame.component[k].v); ++r) append(row, k, r);
      }
    }
    return true;
  }

  bool read(std::int32_t mcu_row, CoefficientRow& row) override {
    for (std::size_t k = 0; k < row.components(); ++k) {
      const auto h = static_cast<std::size_t>(frame.component[k].h);
      for (std::size_t r = 0; r < static_cast<std::size_t>(frame.component[k].v); ++r) {
        const std::size_t first =
            block_at(k, static_cast<std::size_t>(mcu_row), r, static_cast<std::size_t>(row.left()) * h);
        std::int16_t* const to = row.blocks(k, r);
        std::uint8_t* const extents = row.extents(k, r);
        for (std::size_t x = 0; x < row.width(k); ++x) {
          extents[x] = extents_[k][first + x];
          const std::int16_t* const from = blocks_[k].data() + (first + x) * kBlockSize;
          for (std::size_t i = 0; i < (extents[x] < 10 ? 4 : 8); ++i) {
            std::memcpy(to + CoefficientRow::place_of(x) + i * 32, from + i * 8, 16);
          }
        }
      }
    }
    return true;
  }

  [[nodiscard]] std::size_t block_at(std::size_t k, std::size_t mcu_row, std::size_t row,
                                     std::size_t x) const noexcept {
    const auto across = static_cast<std::size_t>(frame.mcus_across) * static_cast<std::size_t>(frame.component[k].h);
    return (mcu_row * static_cast<std::size_t>(frame.component[k].v) + row) * across + x;
  }
  [[nodiscard]] const std::int16_t* block(std::size_t k, std::size_t at) const noexcept {
    return blocks_[k].data() + at * kBlockSize;
  }

  JpegFrame frame;
  std::vector<std::byte> header;  // and all the rest of the file

 private:
  void append(CoefficientRow& row, std::size_t k, std::size_t r) {
    for (std::size_t x = 0; x < row.width(k); ++x) {
      extents_[k].push_back(row.extents(k, r)[x]);
      const std::int16_t* const block = row.blocks(k, r) + CoefficientRow::place_of(x);
      for (std::size_t i = 0; i < kBlockSize; ++i) blocks_[k].push_back(block[i / 8 * 32 + i % 8]);
    }
  }

  std::array<std::vector<std::int16_t>, JpegFrame::kMostComponents> blocks_;
  std::array<std::vector<std::uint8_t>, JpegFrame::kMostComponents> extents_;
};

class Rows final : public RgbRows {
 public:
  void reset(const Box& region) {
    row_size_ = static_cast<std::size_t>(region.width()) * 3;
    const std::size_t size = row_size_ * static_cast<std::size_t>(region.height());
    if (pixels.size() < size) pixels.resize(size);
  }
  std::uint8_t* row(std::int32_t y) override { return pixels.data() + row_size_ * static_cast<std::size_t>(y); }

  std::vector<std::uint8_t> pixels;

 private:
  std::size_t row_size_ = 0;
};

// The first members of libjpeg's private jpeg_entropy_decoder, the same since its version 6.
struct EntropyDecoder {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*);
};

// libjpeg-turbo with its entropy decoder replaced by one that copies blocks.
class LibjpegStage {
 public:
  LibjpegStage() { info_.err = jpeg_std_error(&errors_); }

  // Whether the coefficients come one MCU after the other.
  bool serves(const Stored& image) {
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(image.header.data()), image.header.size());
    jpeg_read_header(&info_, TRUE);
    const bool several = jpeg_has_multiple_scans(&info_) != FALSE;
    jpeg_destroy_decompress(&info_);
    return !several;
  }

  void decode(const Stored& image, const Box& region, std::uint8_t* out) {
    image_ = &image;
    mcus_ = PixelStage::needed(image.frame, region, PixelStage::Colours::all);
    mcu_ = 0;
    jpeg_create_decompress(&info_);
    info_.client_data = this;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(image.header.data()), image.header.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    reinterpret_cast<EntropyDecoder*>(info_.entropy)->decode_mcu = feed;
    const auto unit = static_cast<JDIMENSION>(8 * image.frame.max_h);
    JDIMENSION left = static_cast<JDIMENSION>(mcus_.left) * unit;
    JDIMENSION width = std::min(static_cast<JDIMENSION>(mcus_.right) * unit, info_.image_width) - left;
    jpeg_crop_scanline(&info_, &left, &width);
    if (region.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(region.top));
    for (std::int32_t y = region.top; y < region.bottom; ++y, out += std::size_t{width} * 3) {
      JSAMPROW row = out;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_destroy_decompress(&info_);
  }

 private:
  static boolean feed(j_decompress_ptr info, JBLOCKROW* out) {
    auto& self = *static_cast<LibjpegStage*>(info->client_data);
    const JpegFrame& frame = self.image_->frame;
    const std::int32_t x = self.mcu_ % frame.mcus_across;
    const std::int32_t y = self.mcu_++ / frame.mcus_across;
    const McuRegion& mcus = self.mcus_;
    if (out == nullptr || x < mcus.left || x >= mcus.right || y < mcus.top || y >= mcus.bottom) return TRUE;
    for (std::size_t k = 0; k < frame.components; ++k) {
      const auto h = static_cast<std::size_t>(frame.component[k].h);
      for (std::size_t r = 0; r < static_cast<std::size_t>(frame.component[k].v); ++r) {
        const std::size_t first =
            self.image_->block_at(k, static_cast<std::size_t>(y), r, static_cast<std::size_t>(x) * h);
        for (std::size_t i = 0; i < h; ++i) std::memcpy(*out++, self.image_->block(k, first + i), sizeof(JBLOCK));
      }
    }
    return TRUE;
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  const Stored* image_ = nullptr;
  McuRegion mcus_;
  std::int32_t mcu_ = 0;
};

// Reads what a stage reads, and leaves it.
void read_alone(CoefficientRow& row, Stored& image, const Box& region) {
  const McuRegion mcus = PixelStage::needed(image.frame, region, PixelStage::Colours::all);
  row.reset(image.frame, image.frame.components, mcus);
  for (std::int32_t y = mcus.top; y < mcus.bottom; ++y) (void)image.read(y, row);
}

std::vector<std::unique_ptr<Stored>> load(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<std::unique_ptr<Stored>> images;
  LibjpegStage libjpeg;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(file)), {});
    auto image = std::make_unique<Stored>();
    if (image->open(std::as_bytes(std::span(content))) && PixelStage::serves(image->frame, PixelStage::Colours::all) &&
        libjpeg.serves(*image)) {
      images.push_back(std::move(image));
    }
    if (images.size() == kMostFiles) break;
  }
  return images;
}

struct Mode {
  std::string name;
  std::unique_ptr<PixelStage> stage;  // null: `name` says what
  bench::Figure micros;
};

void run(Mode& mode, Stored& image, const Box& region, LibjpegStage& libjpeg, CoefficientRow& row, Rows& rows) {
  rows.reset(region);
  if (mode.stage) {
    if (!mode.stage->decode(image.frame, region, PixelStage::Colours::all, image, rows)) {
      throw std::runtime_error("an image is left to libjpeg");
    }
  } else if (mode.name == "coefficients alone") {
    read_alone(row, image, region);
  } else {
    rows.pixels.resize(std::max(rows.pixels.size(), static_cast<std::size_t>(image.frame.width + 64) * 3 *
                                                        static_cast<std::size_t>(region.height())));
    libjpeg.decode(image, region, rows.pixels.data());
  }
}

void report(const std::vector<std::unique_ptr<Stored>>& images, std::int64_t side) {
  TransformOptions options;
  options.size = {side, side};
  const Transform transform(options, 17, false);
  std::vector<Mode> modes;
  modes.push_back({"coefficients alone", nullptr, {}});
  modes.push_back({"libjpeg-turbo", nullptr, {}});
  for (const auto& kernels : supported_pixel_kernels()) {
    modes.push_back({kernels.name, std::make_unique<PixelStage>(kernels), {}});
  }
  LibjpegStage libjpeg;
  CoefficientRow row;
  std::vector<Rows> rows(modes.size());
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> seconds(modes.size());
    for (std::size_t first = 0; first < images.size(); first += kPass) {
      const auto end = std::min(first + kPass, images.size());
      for (std::size_t m = 0; m < modes.size(); ++m) {
        const double begin = cpu_seconds();
        for (std::size_t i = first; i < end; ++i) {
          Stored& image = *images[i];
          const auto view =
              transform.view(image.frame.width, image.frame.height, {}, static_cast<std::uint64_t>(round), i);
          run(modes[m], image, view.pixels, libjpeg, row, rows[m]);
        }
        seconds[m] += cpu_seconds() - begin;
      }
    }
    for (std::size_t m = 0; m < modes.size(); ++m) {
      modes[m].micros.rounds.push_back(1e6 * seconds[m] / static_cast<double>(images.size()));
    }
  }
  std::printf("%zu images, random-resized crops for %lld x %lld, one core\n", images.size(),
              static_cast<long long>(side), static_cast<long long>(side));
  const double alone = modes[0].micros.median();
  const double theirs = modes[1].micros.median() - alone;
  for (const auto& mode : modes) {
    std::printf("  %-20s %s us", mode.name.c_str(), mode.micros.text(2).c_str());
    if (&mode != modes.data()) {
      const double own = mode.micros.median() - alone;
      std::printf(", %.2f without coefficients: %.2f x libjpeg-turbo", own, theirs / own);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_pixels FOLDER [SIDE]   (a folder of JPEG files; the crops' side: 224)\n");
    return 2;
  }
  try {
    const auto images = load(argv[1]);
    if (images.empty()) throw std::runtime_error(std::string("no JPEG files that are decoded here below ") + argv[1]);
    report(images, argc > 2 ? std::atoll(argv[2]) : 224);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_pixels: %s\n", error.what());
    return 1;
  }
  return 0;
}
