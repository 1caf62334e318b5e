// Compares nvJPEG with libjpeg-turbo, file by file, with a fake of the library on a fake GPU.
#include "device/device_choice.hpp"
#include "device/nvjpeg/nvjpeg_decoder.hpp"
#include "fake_cuda.hpp"
#include "jpeg_parts.hpp"
#include "jpeg_support.hpp"
#include "nvjpeg_support.hpp"
#include "test.hpp"

using namespace forebay::device;
using namespace forebay::make;

namespace forebay::testing {
namespace {

using File = std::vector<std::byte>;
using Sampling = std::vector<std::pair<int, int>>;

constexpr FakeMachine kMachine{.memory = std::size_t{256} << 20};

// A decoder with its environment; checks at the end that nothing is left of it.
struct Workspace {
  explicit Workspace(std::uint64_t seed = 1) : machine({.memory = kMachine.memory, .seed = seed}) {}
  ~Workspace() {
    decoder.reset();
    CHECK(nvjpeg->objects == 0);
    CHECK(nvjpeg->misuse == 0);
    CHECK(machine.misuse().empty());
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void begin(std::vector<File> new_files) {
    files = std::move(new_files);
    if (!decoder) {
      std::shared_ptr<Device> device = make_device("cuda").device;
      device->enter_thread();
      decoder = std::make_unique<NvjpegDecoder>(std::make_shared<NvjpegLibrary>(), device, ImageOptions{});
    }
    decoder->begin(std::vector<std::span<const std::byte>>(files.begin(), files.end()));
  }

  FakeCuda machine;
  UseFakeNvjpeg nvjpeg;
  std::vector<File> files;  // must exist while they are decoded
  std::unique_ptr<NvjpegDecoder> decoder;
};

// The largest difference between pixel values within a region that both images cover.
int difference(const Image& some, const Image& others, const Box& region) {
  const Box a = some.place_of(region);
  const Box b = others.place_of(region);
  int largest = 0;
  for (std::int32_t y = 0; y < region.height(); ++y) {
    const std::uint8_t* const left = some.row(a.top + y) + std::ptrdiff_t{3} * a.left;
    const std::uint8_t* const right = others.row(b.top + y) + std::ptrdiff_t{3} * b.left;
    for (std::int32_t i = 0; i < 3 * region.width(); ++i) largest = std::max(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

// The kinds of files that hardware decoders support.
std::vector<File> plain_files() {
  std::vector<File> files;
  for (const Sampling& sampling : {Sampling{{1, 1}, {1, 1}, {1, 1}}, Sampling{{2, 1}, {1, 1}, {1, 1}},
                                   Sampling{{2, 2}, {1, 1}, {1, 1}}, Sampling{{1, 2}, {1, 1}, {1, 1}}}) {
    for (int orientation : {1, 3, 6, 8}) {
      Recipe recipe{.width = 90 + static_cast<int>(files.size()), .height = 61};
      recipe.sampling = sampling;
      recipe.app1 = exif_segment(orientation);
      files.push_back(make_jpeg(recipe));
    }
  }
  for (int orientation = 1; orientation <= 8; ++orientation) {
    Recipe recipe{.width = 33 + orientation, .height = 70, .input = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE};
    recipe.components = 1;
    recipe.app1 = exif_segment(orientation);
    files.push_back(make_jpeg(recipe));
  }
  return files;
}

void check_like_turbo(Workspace& workspace, const std::vector<File>& files, int most) {
  constexpr std::uint64_t kSeed = 4;
  CAPTURE(kSeed);
  Random random(kSeed);
  JpegDecoder turbo;
  Image expected;
  Image found;
  workspace.begin(files);
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    const StoredPicture* const picture = workspace.decoder->picture(i);
    REQUIRE(picture != nullptr);
    const ImageSize size = turbo.open(files[i], {});
    CHECK(picture->size().width == size.width);
    CHECK(picture->size().height == size.height);
    const Box region = random_region(random, size);
    turbo.decode(region, 1, expected);
    picture->show(region, found);
    CHECK(difference(expected, found, region) <= most);
  }
}

TEST_CASE("pictures are libjpeg-turbo's, as near as the library is") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    Workspace workspace(seed);
    check_like_turbo(workspace, plain_files(), 0);
    CHECK(workspace.nvjpeg->largest_batch == static_cast<int>(plain_files().size()));
    workspace.nvjpeg->grey_levels = 1;
    check_like_turbo(workspace, plain_files(), 1);
  }
}

TEST_CASE("other kinds of files are left to libjpeg-turbo, and so are files it refuses") {
  const auto jpeg = [](const auto& change) {
    Recipe recipe;
    change(recipe);
    return make_jpeg(recipe);
  };
  const File good = jpeg([](Recipe&) {});
  File no_end = good;
  no_end.resize(no_end.size() - 2);
  File text(40, std::byte{'x'});
  const std::vector<std::pair<std::string, File>> files{
      {"progressive", jpeg([](Recipe& r) { r.progressive = true; })},
      {"arithmetic", jpeg([](Recipe& r) { r.arithmetic = true; })},
      {"4:1:1", jpeg([](Recipe& r) {
         r.sampling = Sampling{{4, 1}, {1, 1}, {1, 1}};
       })},
      {"RGB as it is", jpeg([](Recipe& r) { r.stored = JCS_RGB, r.subsampled = false; })},
      {"CMYK", jpeg([](Recipe& r) { r.input = r.stored = JCS_CMYK, r.components = 4; })},
      {"several scans", jpeg([](Recipe& r) { r.separate_scans = true; })},
      {"larger than the room", jpeg([](Recipe& r) { r.width = 4000, r.height = 2800; })},
      {"without an end", no_end},
      {"text", text},
      {"nothing", File()}};
  Workspace workspace;
  for (const auto& [kind, file] : files) {
    CAPTURE(kind);
    workspace.begin({good, file, good});
    CHECK(workspace.decoder->picture(0) != nullptr);
    CHECK(workspace.decoder->picture(1) == nullptr);
    CHECK(workspace.decoder->picture(2) != nullptr);
  }
}

TEST_CASE("what nvJPEG refuses or fails at is left alone, and what is beside it is not") {
  constexpr unsigned kOdd = 50;
  const auto files = [&](int first) {
    std::vector<File> all;
    for (int i = 0; i < 5; ++i) all.push_back(make_jpeg({.width = first + i, .height = 20}));
    return all;
  };
  Workspace workspace;
  const auto check_odd_one = [&](std::atomic<unsigned>& width) {
    width = kOdd;
    workspace.begin(files(kOdd - 2));
    for (std::size_t i = 0; i < 5; ++i) CHECK((workspace.decoder->picture(i) == nullptr) == (i == 2));
    width = 0;
    check_like_turbo(workspace, files(kOdd - 2), 0);
  };
  SUBCASE("refuses") { check_odd_one(workspace.nvjpeg->unsupported_width); }
  SUBCASE("finds it damaged") { check_odd_one(workspace.nvjpeg->damaged_width); }
  SUBCASE("fails") { check_odd_one(workspace.nvjpeg->failing_width); }
}

TEST_CASE("usual photographs, upright or across, need no more memory than was asked for at the start") {
  std::vector<File> files;
  for (int i = 0; i < 4; ++i) {
    files.push_back(make_jpeg({.width = 1024, .height = 683 + i}));
    files.push_back(make_jpeg({.width = 683 + i, .height = 1024}));
  }
  Workspace workspace;
  check_like_turbo(workspace, files, 0);
  CHECK(workspace.nvjpeg->growths == 0);
}

TEST_CASE("decoding lets the trainer's kernels go first") {
  Workspace workspace;
  workspace.begin({make_jpeg({})});
  CHECK(workspace.decoder->picture(0) != nullptr);
  CHECK(workspace.machine.priority_of(workspace.nvjpeg->stream) == kLeastPriority);
}

TEST_CASE("files that do not fit together are decoded one group after the other") {
  std::vector<File> files;
  const int count = kSanitized ? 5 : 9;
  for (int i = 0; i < count; ++i) files.push_back(make_jpeg({.width = 1900 + i, .height = 1300}));
  for (const bool at_call : {false, true}) {
    CAPTURE(at_call);
    Workspace workspace;
    workspace.nvjpeg->writes_at_call = at_call;
    check_like_turbo(workspace, files, 0);
    CHECK(workspace.nvjpeg->batches == (kSanitized ? 2 : 3));
    CHECK(workspace.nvjpeg->largest_batch == 4);
  }
}

TEST_CASE("a GPU that fails while it decodes is an error, not a file to leave") {
  Workspace workspace;
  workspace.begin({make_jpeg({})});
  workspace.machine.fail_next("cudaMemcpyAsync", cudaErrorIllegalAddress);
  CHECK_THROWS_AS(static_cast<void>(workspace.decoder->picture(0)), Error);
}

std::string description() {
  const NvjpegLibrary library;
  return library.describe();
}

TEST_CASE("the library says what it decodes with") {
  const FakeCuda machine(kMachine);
  const UseFakeNvjpeg nvjpeg;
  CHECK(contains(description(), "nvJPEG 13.1.2 ("));
  CHECK(contains(description(), "hardware decoder with 7 engines of 1 core each"));
  nvjpeg->knows_upsampling = false;
  CHECK(contains(description(), "hardware decoder with 7 engines of 1 core each"));
  nvjpeg->engines = 1;
  nvjpeg->cores = 2;
  CHECK(description().ends_with("hardware decoder with 1 engine of 2 cores"));
  nvjpeg->engines = 0;
  CHECK(contains(description(), "by kernels"));
  nvjpeg->starts_without_engines = true;
  CHECK(contains(description(), "by kernels"));
  CHECK(nvjpeg->objects == 0);
}

TEST_CASE("without a hardware decoder kernels take the same files") {
  Workspace workspace;
  workspace.nvjpeg->engines = 0;
  SUBCASE("said at the start") {}
  SUBCASE("said when asked for engines") { workspace.nvjpeg->starts_without_engines = true; }
  check_like_turbo(workspace, plain_files(), 0);
}

std::string refusal() {
  try {
    const NvjpegLibrary library;
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_CASE("a library that is missing, not one, or does not start is said with what to do") {
  const FakeCuda machine(kMachine);
  const UseFakeNvjpeg nvjpeg;
  nvjpeg->starts = false;
  CHECK(contains(refusal(), "does not start on this GPU: nvjpegCreateEx gave NVJPEG_STATUS_ARCH_MISMATCH (7)"));
  ::setenv("FOREBAY_NVJPEG", "/there/is/none.so", 1);
  CHECK(contains(refusal(), "FOREBAY_NVJPEG = /there/is/none.so: "));
  ::setenv("FOREBAY_NVJPEG", "libdl.so.2", 1);
  CHECK(contains(refusal(), "lacks functions"));
}

TEST_CASE("of several libraries the first that can be used is, and where none can each says why") {
  const FakeCuda machine(kMachine);
  const UseFakeNvjpeg nvjpeg;
  const std::vector<const char*> files{"/there/is/none.so", "libdl.so.2", FOREBAY_FAKE_NVJPEG};
  CHECK(contains(NvjpegLibrary(files).describe(), FOREBAY_FAKE_NVJPEG));
  nvjpeg->starts = false;
  const std::string error = testing::error_of([&] { const NvjpegLibrary library(files); });
  CAPTURE(error);
  CHECK(contains(error, "no libnvjpeg.so can be used (/there/is/none.so: "));
  CHECK(contains(error, "; libdl.so.2 lacks functions"));
  CHECK(contains(error, "; nvJPEG 13.1.2 (" FOREBAY_FAKE_NVJPEG ") does not start on this GPU"));
  CHECK(contains(error, "suits the driver"));
  CHECK(nvjpeg->objects == 0);
}

}  // namespace
}  // namespace forebay::testing
