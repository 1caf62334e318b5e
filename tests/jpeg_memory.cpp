#include <doctest/doctest.h>

#include <csetjmp>
#include <cstring>

#include <jerror.h>

#include "allocation_counter.hpp"
#include "base/poison.hpp"
#include "jpeg_either.hpp"
#include "jpeg_support.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/jpeg_memory.hpp"

// What the decoder keeps from image to image: memory, and nothing that is in it.
namespace {

using forebay::Image;
using forebay::JpegDecoder;
using forebay::JpegMemory;
using forebay::testing::make_jpeg;
using forebay::testing::Recipe;

j_common_ptr common(jpeg_decompress_struct& info) { return reinterpret_cast<j_common_ptr>(&info); }

// An object that takes its memory from `memory` until the end of the scope.
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

  // Whether the bytes were given; each is written to.
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

}  // namespace

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
  use(100 * kMiB);  // needed in time: kept
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
  // More Huffman tables than a decoder keeps.
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
