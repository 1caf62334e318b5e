// Compares Forebay's pixel stage with libjpeg's full decode, both from libjpeg's coefficients.
#include <jerror.h>
#include <csetjmp>

#include "allocation_counter.hpp"
#include "base/poison.hpp"
#include "jpeg/libjpeg_images.hpp"
#include "jpeg/pixel_stage.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_samplings.hpp"
#include "jpeg_support.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/libjpeg_managers.hpp"
#include "test.hpp"

namespace forebay::test_jpeg_pixels {

using namespace forebay::jpeg;
using namespace forebay::make;

namespace {

using namespace forebay::testing;
using Colours = PixelStage::Colours;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kUntouched = 0xa5;

// Rows with guard bytes between them, which must not change.
class GuardedRows final : public forebay::jpeg::RgbRows {
 public:
  void reset(const Box& region) {
    row_size_ = static_cast<std::size_t>(region.width()) * 3;
    stride_ = row_size_ + 5;
    bytes_.assign(stride_ * static_cast<std::size_t>(region.height()), kUntouched);
    next_ = 0;
  }
  std::uint8_t* row(std::int32_t y) override {
    if (y != next_++) throw std::logic_error("rows out of order");
    return bytes_.data() + stride_ * static_cast<std::size_t>(y);
  }
  // Whether the rows equal `region` of an image of `width` pixels with this many channels, and
  // nothing else was written.
  [[nodiscard]] bool are(const Bytes& image, std::int32_t width, std::size_t channels, const Box& region) const {
    if (next_ != region.height()) return false;
    for (std::int32_t y = 0; y < region.height(); ++y) {
      const std::uint8_t* const given = bytes_.data() + stride_ * static_cast<std::size_t>(y);
      const std::uint8_t* const expected =
          image.data() + static_cast<std::size_t>((region.top + y) * width + region.left) * channels;
      for (std::size_t i = 0; i < row_size_; ++i) {
        if (given[i] != expected[channels == 3 ? i : i / 3]) return false;
      }
      if (!std::all_of(given + row_size_, given + stride_, [](std::uint8_t byte) { return byte == kUntouched; })) {
        return false;
      }
    }
    return true;
  }

 private:
  std::size_t row_size_ = 0;
  std::size_t stride_ = 0;
  Bytes bytes_;
  std::int32_t next_ = 0;
};

struct Counts {
  int compared = 0;
  int wrong = 0;
  int not_served = 0;
};

// A file, with libjpeg's coefficients and pixels.
class Truth {
 public:
  void set(std::span<const std::byte> file) {
    REQUIRE(coefficients_.open(file));
    colours_ = forebay::jpeg::decoded_by_libjpeg(file, false);
    luma_ = forebay::jpeg::decoded_by_libjpeg(file, true);
    REQUIRE(!colours_.empty());
  }

  [[nodiscard]] ImageSize size() const { return {coefficients_.frame().width, coefficients_.frame().height}; }

  void compare(PixelStage& stage, const Box& region, Colours colours, Counts& counts) {
    const JpegFrame& frame = coefficients_.frame();
    if (!PixelStage::serves(frame, colours)) {
      ++counts.not_served;
      return;
    }
    rows_.reset(region);
    if (!stage.decode(frame, region, colours, coefficients_, rows_)) {
      ++counts.not_served;
      return;
    }
    ++counts.compared;
    const bool all = colours == Colours::all;
    const bool equal = rows_.are(all ? colours_ : luma_, frame.width, all ? 3 : 1, region);
    if (!equal) ++counts.wrong;
  }

 private:
  LibjpegCoefficients coefficients_;
  Bytes colours_;
  Bytes luma_;
  GuardedRows rows_;
};

std::vector<PixelStage> all_stages() {
  std::vector<PixelStage> stages;
  for (const auto& kernels : forebay::jpeg::supported_pixel_kernels()) stages.emplace_back(kernels);
  return stages;
}

// Compares the whole image and some regions, by every stage, in colour and luma.
void compare_all(std::vector<PixelStage>& stages, Truth& truth, int regions, Random& random, Counts& counts) {
  const ImageSize size = truth.size();
  truth.compare(stages[random.below(stages.size())], {0, 0, size.width, size.height}, Colours::all, counts);
  for (int i = 0; i < regions; ++i) {
    const Box region = random_region(random, size);
    const Colours colours = below(random, 5) == 0 ? Colours::luma : Colours::all;
    for (auto& stage : stages) truth.compare(stage, region, colours, counts);
  }
}

// Compares every pair of horizontal and vertical samplings, or each `step`-th, with images of
// `sizes` sizes up to 70 x 70.
Counts compare_samplings(Random& random, std::size_t step, int sizes) {
  auto stages = all_stages();
  Truth truth;
  Counts counts;
  const auto factors = forebay::testing::decodable_factors();
  std::size_t turn = 0;
  for (const auto& across : factors) {
    for (const auto& down : factors) {
      if (turn++ % step != 0) continue;
      const int quality = 60 + below(random, 41);  // with coarser tables no image has such values
      auto file = forebay::testing::make_sampled_file(across, down, random, quality);
      const int wrong = counts.wrong;
      for (int i = 0; i < sizes; ++i) {
        forebay::testing::set_size(file,
                                   {1 + below(random, i % 4 < 2 ? 70 : 20), 1 + below(random, i % 2 == 0 ? 70 : 20)});
        truth.set(file);
        compare_all(stages, truth, 2, random, counts);
      }
      CHECK_MESSAGE(counts.wrong == wrong, forebay::testing::text_of(across, down) << "quality " << quality);
    }
  }
  MESSAGE(counts.compared << " regions compared, " << counts.not_served << " left to libjpeg");
  CHECK(counts.not_served < counts.compared / 100);
  return counts;
}

TEST_CASE("pixels are those of libjpeg's full decode: samplings of three components, widths and heights to 70") {
  Random random = testing::random_from(40);
  // Coprime to 34, the number of factors, so that all of them occur in both directions.
  CHECK(compare_samplings(random, kSanitized ? 27 : 7, 6).compared > (kSanitized ? 1'000 : 4'500));
}

// Takes minutes: test_jpeg_pixels --no-skip --test-case='every*'
TEST_CASE("every sampling of three components, 200 sizes each" * doctest::skip()) {
  Random random(44);
  CHECK(compare_samplings(random, 1, 200).compared > 1'000'000);
}

TEST_CASE("pixels are those of libjpeg's full decode: colour spaces, qualities 1 to 100, regions of larger images") {
  Random random = testing::random_from(41);
  auto stages = all_stages();
  Truth truth;
  Counts counts;
  for (int quality = 1; quality <= 100; quality += kSanitized ? 9 : 1) {
    for (const bool grey : {false, true}) {
      truth.set(forebay::jpeg::encoded_noise({.width = 1 + below(random, 400),
                                              .height = 1 + below(random, 120),
                                              .h = 1 + below(random, 2),
                                              .v = 1 + below(random, 2),
                                              .grey = grey,
                                              .quality = quality}));
      compare_all(stages, truth, 5, random, counts);
      CHECK_MESSAGE(counts.wrong == 0, "quality " << quality);
    }
  }
  CHECK(counts.not_served == 0);  // all encoders' output, even of noise, is within the limits
  for (const bool subsampled : {false, true}) {
    forebay::testing::Recipe recipe;
    recipe.width = 133;
    recipe.height = 47;
    recipe.stored = JCS_RGB;
    if (subsampled) recipe.sampling = {{2, 2}, {1, 1}, {1, 2}};
    truth.set(forebay::testing::make_jpeg(recipe));
    compare_all(stages, truth, 20, random, counts);
  }
  CHECK(counts.wrong == 0);
  CHECK(counts.not_served > 0);  // because luma of RGB is a sum
}

// All coefficients have the same value.
class FlatSource final : public forebay::jpeg::CoefficientSource {
 public:
  explicit FlatSource(std::int16_t value) : value_(value) {}
  bool read(std::int32_t mcu_row, CoefficientRow& row) override {
    rows.push_back(mcu_row);
    for (std::size_t k = 0; k < row.components(); ++k) {
      for (std::size_t x = 0; x < row.width(k); ++x) {
        for (const auto place : CoefficientRow::kPlaces) row.blocks(k, 0)[CoefficientRow::place_of(x) + place] = value_;
        row.extents(k, 0)[x] = 63;
      }
    }
    return rows.size() < most_rows;
  }

  std::vector<std::int32_t> rows;
  std::size_t most_rows = 100;

 private:
  std::int16_t value_;
};

JpegFrame frame_420(std::uint16_t factor) {
  JpegFrame frame;
  frame.width = 100;
  frame.height = 100;
  frame.colour = JpegColour::ycbcr;
  frame.components = 3;
  frame.component[0].h = frame.component[0].v = 2;
  for (auto& component : frame.component) component.quantiser.fill(factor);
  frame.complete();
  return frame;
}

TEST_CASE("coefficients and quantisers too large for 16 bits are left to libjpeg") {
  PixelStage stage(forebay::jpeg::supported_pixel_kernels().front());
  GuardedRows rows;
  const Box all{0, 0, 100, 100};
  for (const auto& [value, factor] : {std::pair{32767, 1}, {-32768, 255}, {8192, 1}, {1, 8192}, {-8192, 1}, {600, 1}}) {
    FlatSource source(static_cast<std::int16_t>(value));
    rows.reset(all);
    CHECK_FALSE(stage.decode(frame_420(static_cast<std::uint16_t>(factor)), all, Colours::all, source, rows));
  }
  FlatSource harmless(1);
  rows.reset(all);
  CHECK(stage.decode(frame_420(1), all, Colours::all, harmless, rows));
  CHECK_FALSE(PixelStage::serves(frame_420(PixelKernels::kMostQuantiser + 1), Colours::all));
  auto odd = frame_420(1);
  odd.component[0].h = 3;
  odd.component[1].h = 2;
  odd.complete();
  CHECK_FALSE(PixelStage::serves(odd, Colours::all));
  CHECK(PixelStage::serves(odd, Colours::luma));
}

TEST_CASE("rows that a region does not need are not asked for") {
  const auto frame = frame_420(1);
  PixelStage stage(forebay::jpeg::supported_pixel_kernels().front());
  GuardedRows rows;
  const auto asked = [&](const Box& region, Colours colours) {
    FlatSource source(0);
    rows.reset(region);
    CHECK(stage.decode(frame, region, colours, source, rows));
    return source.rows;
  };
  using Rows = std::vector<std::int32_t>;
  CHECK(asked({5, 33, 6, 34}, Colours::all) == Rows{2});
  CHECK(asked({5, 32, 6, 47}, Colours::all) == Rows{1, 2});
  CHECK(asked({5, 33, 6, 48}, Colours::all) == Rows{2, 3});
  CHECK(asked({5, 32, 6, 48}, Colours::luma) == Rows{2});
  CHECK(asked({5, 99, 6, 100}, Colours::all) == Rows{6});
  CHECK(asked({0, 0, 1, 1}, Colours::all) == Rows{0});
  CHECK(PixelStage::needed(frame, {33, 33, 47, 47}, Colours::all) == McuRegion{2, 2, 3, 3});
  CHECK(PixelStage::needed(frame, {32, 33, 48, 47}, Colours::all) == McuRegion{1, 2, 4, 3});
  CHECK(PixelStage::needed(frame, {32, 33, 48, 47}, Colours::luma) == McuRegion{2, 2, 3, 3});
}

TEST_CASE("a source that stops or throws ends the decode, and the next image is not touched by it") {
  class Failing final : public forebay::jpeg::CoefficientSource {
    bool read(std::int32_t /*mcu_row*/, CoefficientRow& row) override {
      row.blocks(0, 0)[3] = 77;
      row.extents(0, 0)[0] = 63;
      throw std::runtime_error("cut short");
    }
  };
  PixelStage stage(forebay::jpeg::supported_pixel_kernels().front());
  Truth truth;
  truth.set(forebay::jpeg::encoded_noise({.width = 64, .height = 40, .h = 2, .v = 2}));
  Failing failing;
  GuardedRows rows;
  const Box all{0, 0, 64, 40};
  rows.reset(all);
  CHECK_THROWS_WITH_AS((void)stage.decode(frame_420(1), all, Colours::all, failing, rows), "cut short",
                       std::runtime_error);
  Counts counts;
  truth.compare(stage, all, Colours::all, counts);
  FlatSource ending(1);
  ending.most_rows = 2;
  rows.reset({0, 0, 100, 100});
  CHECK_FALSE(stage.decode(frame_420(1), {0, 0, 100, 100}, Colours::all, ending, rows));
  truth.compare(stage, all, Colours::all, counts);
  CHECK(counts.compared == 2);
  CHECK(counts.wrong == 0);
}

// What a decoder keeps from image to image: memory, but none of its content.

j_common_ptr common(jpeg_decompress_struct& info) { return reinterpret_cast<j_common_ptr>(&info); }

// A libjpeg object that allocates from `memory` until the end of the scope.
struct Served {
  explicit Served(JpegMemory& memory) {
    info.err = jpeg_std_error(&errors);
    info.client_data = this;
    errors.error_exit = [](j_common_ptr object) {
      auto& self = *static_cast<Served*>(object->client_data);
      self.refused = object->err->msg_code;
      std::longjmp(self.escape, 1);
    };
    jpeg_create_decompress(&info);
    memory.serve(info);
  }
  ~Served() { jpeg_destroy_decompress(&info); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  // Allocates the bytes and writes to each; whether that succeeded.
  bool takes(std::size_t bytes) {
    if (setjmp(escape) != 0) return false;
    std::memset(info.mem->alloc_large(common(info), JPOOL_IMAGE, bytes), 0x5a, bytes);
    return true;
  }

  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf escape{};
  int refused = 0;
};

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST_CASE("one object after another uses the same memory") {
  JpegMemory memory;
  CHECK(memory.held() == 0);
  for (int i = 0; i < 3; ++i) {
    Served served(memory);
    for (int k = 0; k < 100; ++k) CHECK(served.takes(std::size_t{1000} * static_cast<std::size_t>(k)));
  }
  const auto held = memory.held();
  CHECK(held >= 4'950'000);
  CHECK(held < 10'000'000);
  for (int i = 0; i < 20; ++i) {
    Served served(memory);
    for (int k = 0; k < 100; ++k) CHECK(served.takes(std::size_t{1000} * static_cast<std::size_t>(k)));
    CHECK(memory.held() == held);
  }
}

TEST_CASE("no more is given than the object may use") {
  JpegMemory memory;
  Served served(memory);
  served.info.mem->max_memory_to_use = static_cast<long>(kMiB);
  CHECK(served.takes(kMiB / 2));
  CHECK(served.takes(kMiB / 4));
  CHECK_FALSE(served.takes(kMiB / 2));
  CHECK(served.refused == JERR_OUT_OF_MEMORY);
  CHECK(served.takes(kMiB / 8));
  CHECK_FALSE(served.takes(SIZE_MAX / 2));
}

TEST_CASE("much memory is given back once it is not needed for a while") {
  JpegMemory memory;
  const auto use = [&](std::size_t bytes) {
    Served served(memory);
    CHECK(served.takes(bytes));
  };
  use(100 * kMiB);
  for (int i = 0; i < JpegMemory::kPatience - 1; ++i) use(kMiB);
  CHECK(memory.held() >= 100 * kMiB);
  use(100 * kMiB);  // needed soon enough: kept
  for (int i = 0; i < JpegMemory::kPatience - 1; ++i) use(kMiB);
  CHECK(memory.held() >= 100 * kMiB);
  use(kMiB);
  CHECK(memory.held() <= JpegMemory::kKeptBytes);
}

TEST_CASE("an array of coefficients begins as zeros where that is asked for") {
  JpegMemory memory;
  for (int round = 0; round < 3; ++round) {
    Served served(memory);
    auto& manager = *served.info.mem;
    auto* const array = manager.request_virt_barray(common(served.info), JPOOL_IMAGE, TRUE, 5, 12, 4);
    manager.realize_virt_arrays(common(served.info));
    for (JDIMENSION row = 0; row < 12; row += 4) {
      auto* const rows = manager.access_virt_barray(common(served.info), array, row, 4, TRUE);
      int nonzero = 0;
      for (int y = 0; y < 4; ++y) {
        for (int x = 0; x < 5; ++x) {
          for (int k = 0; k < DCTSIZE2; ++k) nonzero += rows[y][x][k] != 0 ? 1 : 0;
        }
      }
      CHECK(nonzero == 0);
      std::memset(rows[0], 0xff, sizeof(JBLOCK) * 5);
      CHECK(manager.access_virt_barray(common(served.info), array, row, 1, FALSE)[0][4][63] == -1);
    }
  }
}

TEST_CASE("AddressSanitizer sees what is read behind a part, a row, and after the object" *
          doctest::skip(!forebay::kPoisons)) {
  JpegMemory memory;
  const char* part = nullptr;
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{128}, std::size_t{1}}) {
    Served served(memory);
    auto& manager = *served.info.mem;
    part = static_cast<const char*>(manager.alloc_small(common(served.info), JPOOL_IMAGE, bytes));
    (void)manager.alloc_small(common(served.info), JPOOL_IMAGE, 64);
    CHECK_FALSE(forebay::is_poisoned(part));
    CHECK_FALSE(forebay::is_poisoned(part + bytes - 1));
    CHECK(forebay::is_poisoned(part + bytes));
    const auto width = static_cast<JDIMENSION>(bytes);
    auto* const rows = manager.alloc_sarray(common(served.info), JPOOL_IMAGE, width, 3);
    for (int y = 0; y < 3; ++y) {
      CHECK_FALSE(forebay::is_poisoned(rows[y]));
      CHECK_FALSE(forebay::is_poisoned(rows[y] + width - 1));
      CHECK(forebay::is_poisoned(rows[y] + width));
    }
  }
  CHECK(memory.held() > 0);
  CHECK(forebay::is_poisoned(part));
}

TEST_CASE("decoding allocates nothing once it has met images as large") {
  JpegDecoder decoder(forebay::testing::either_way());
  Image image;
  Recipe recipe;
  recipe.width = 300;
  recipe.height = 200;
  std::vector<std::vector<std::byte>> files{make_jpeg(recipe)};
  recipe.sampling = {{2, 1}, {1, 1}, {1, 1}};
  files.push_back(make_jpeg(recipe));
  Recipe grey = recipe;
  grey.input = grey.stored = JCS_GRAYSCALE;
  grey.components = 1;
  grey.sampling = {{1, 1}};
  files.push_back(make_jpeg(grey));
  // More Huffman tables than a decoder caches.
  recipe.optimised = true;
  for (int i = 0; i < 4; ++i, ++recipe.width) files.push_back(make_jpeg(recipe));
  recipe.progressive = true;
  recipe.app1 = forebay::testing::exif_segment(6);
  files.push_back(make_jpeg(recipe));
  recipe.input = recipe.stored = JCS_CMYK;
  recipe.components = 4;
  files.push_back(make_jpeg(recipe));
  const auto decode_all = [&] {
    for (const auto& file : files) {
      for (const std::int32_t shrink : {1, 2}) {
        (void)decoder.open(file, {});
        decoder.decode({10, 20, 150, 180}, shrink, image);
      }
    }
  };
  decode_all();
  const forebay::testing::AllocationCounter counter;
  for (int i = 0; i < 10; ++i) decode_all();
  CHECK(counter.count() == 0);
}

}  // namespace
}  // namespace forebay::test_jpeg_pixels
