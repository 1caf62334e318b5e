// workers.jpeg = "nvjpeg", from files to batches, with a fake of the library on a fake GPU.
#include <forebay/feeder.hpp>

#include "device/device_choice.hpp"
#include "device/gpu_decoding.hpp"
#include "fake_cuda.hpp"
#include "jpeg_support.hpp"
#include "memory_dataset.hpp"
#include "nvjpeg_support.hpp"
#include "test.hpp"

using namespace forebay::device;

namespace forebay::testing {
namespace {

using File = std::vector<std::byte>;

constexpr FakeMachine kMachine{.memory = std::size_t{512} << 20};

// Every third file is progressive, which nvJPEG's hardware does not support.
std::vector<File> files() {
  std::vector<File> all;
  for (int i = 0; i < 60; ++i) {
    Recipe recipe{.width = 40 + i, .height = 90 - i};
    recipe.progressive = i % 3 == 0;
    recipe.app1 = exif_segment(1 + i % 8);
    all.push_back(make_jpeg(recipe));
  }
  return all;
}

Options options_of(JpegLibrary jpeg, std::int64_t decoders = 2) {
  Options options = memory_options(8);
  options.device = "cuda";
  options.run.epochs = 2;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {24, 32};
  options.transform.mirror = 0.5;
  options.workers.decode = decoders;
  options.workers.jpeg = jpeg;
  return options;
}

struct Run {
  Batches batches;
  Summary summary;
};

Run run(const Options& options, const std::shared_ptr<const Dataset>& dataset) {
  Feeder feeder(options, Parts{.dataset = dataset});
  Run run;
  add_batches(feeder, run.batches);
  run.summary = feeder.summary();
  return run;
}

std::size_t samples_of(const Run& run, const Options& options) {
  std::size_t bytes = 0;
  for (const auto& [key, batch] : run.batches) bytes += batch.size();
  return bytes / static_cast<std::size_t>(3 * options.transform.size[0] * options.transform.size[1]);
}

TEST_CASE("batches are those of libjpeg-turbo as near as nvJPEG is, and both are counted") {
  const FakeCuda machine(kMachine);
  const UseFakeNvjpeg nvjpeg;
  const auto dataset = std::make_shared<JpegDataset>(files());
  for (const When when : {When::enqueue, When::dequeue}) {
    Options turbo = options_of(JpegLibrary::turbo);
    turbo.transform.when = when;
    const Run expected = run(turbo, dataset);
    CHECK(expected.summary.nvjpeg_samples == 0);
    CHECK(expected.summary.nvjpeg_fallbacks == 0);
    for (const std::int64_t decoders : {1, 3}) {
      Options options = options_of(JpegLibrary::nvjpeg, decoders);
      options.transform.when = when;
      const Run found = run(options, dataset);
      CHECK(found.batches == expected.batches);
      CHECK(found.summary.nvjpeg_samples == 80);
      CHECK(found.summary.nvjpeg_fallbacks == 40);
      CHECK(samples_of(found, options) == 120);
    }
  }
  CHECK(nvjpeg->largest_batch > 1);
  CHECK(nvjpeg->objects == 0);
  CHECK(nvjpeg->misuse == 0);
  CHECK(machine.misuse().empty());
}

TEST_CASE("an image that nvJPEG fails at does not change what is served, whoever decodes it and with what") {
  const FakeCuda machine(kMachine);
  const UseFakeNvjpeg nvjpeg;
  nvjpeg->failing_width = 55;
  nvjpeg->grey_levels = 1;  // shows which decoder was used
  const auto dataset = std::make_shared<JpegDataset>(files());
  const Run one = run(options_of(JpegLibrary::nvjpeg, 1), dataset);
  const Run four = run(options_of(JpegLibrary::nvjpeg, 4), dataset);
  CHECK(one.batches == four.batches);
  CHECK(one.batches != run(options_of(JpegLibrary::turbo), dataset).batches);
  CHECK(one.summary.nvjpeg_samples == four.summary.nvjpeg_samples);
  CHECK(one.summary.nvjpeg_fallbacks + one.summary.nvjpeg_samples == 120);
}

TEST_CASE("bad files are those that libjpeg-turbo refuses, with and without nvJPEG") {
  const FakeCuda machine(kMachine);
  const UseFakeNvjpeg nvjpeg;
  std::vector<File> some = files();
  some[4].resize(some[4].size() / 2);
  some[7].assign(30, std::byte{'x'});
  some[9].clear();
  const auto dataset = std::make_shared<JpegDataset>(some);
  const Run expected = run(options_of(JpegLibrary::turbo), dataset);
  const Run found = run(options_of(JpegLibrary::nvjpeg), dataset);
  CHECK(expected.summary.bad_samples == 3);
  CHECK(found.summary.bad_samples == 3);
  CHECK(found.batches == expected.batches);
  CHECK(found.summary.nvjpeg_fallbacks >= 40 + 3);
  CHECK(found.summary.nvjpeg_samples + found.summary.nvjpeg_fallbacks >= 120 + 3);
}

TEST_CASE("samples that are not JPEG files are neither") {
  const FakeCuda machine(kMachine);
  const UseFakeNvjpeg nvjpeg;
  Options options = memory_options(6);
  options.device = "cuda";
  options.workers.jpeg = JpegLibrary::nvjpeg;
  const Run found = run(options, std::make_shared<MemoryDataset>(50));
  CHECK(samples_of(found, options) == 50);
  CHECK(found.summary.nvjpeg_samples == 0);
  CHECK(found.summary.nvjpeg_fallbacks == 0);
}

TEST_CASE("a GPU that fails while it decodes ends the run with its error") {
  FakeCuda machine(kMachine);
  const UseFakeNvjpeg nvjpeg;
  const auto dataset = std::make_shared<JpegDataset>(files());
  Options options = options_of(JpegLibrary::nvjpeg);
  options.run.epochs = 1000;
  std::string error;
  try {
    Feeder feeder(options, Parts{.dataset = dataset});
    machine.fail_next("cudaMemcpyAsync", cudaErrorIllegalAddress);
    while (const auto batch = feeder.next(feeder.stream())) continue;
  } catch (const Error& e) {
    error = e.what();
  }
  CAPTURE(error);
  CHECK(contains(error, "cudaMemcpyAsync"));
}

std::string notice_on(const std::string& device) {
  const GpuDecodingChoice choice = make_gpu_decoding({}, make_device(device).device, 1);
  return (choice.decoding ? "" : "none: ") + choice.notice;
}
TEST_CASE("where nvJPEG cannot be, one line says why, and libjpeg-turbo decodes") {
  const FakeCuda machine(kMachine);
  const UseFakeNvjpeg nvjpeg;
  CHECK(contains(notice_on("cuda"), "JPEG files are decoded by nvJPEG 13.1.2 ("));
  CHECK(contains(notice_on("host"), "none: workers.jpeg = \"nvjpeg\" needs batches on a GPU"));
  nvjpeg->states_fail = true;
  CHECK(contains(notice_on("cuda"), "none: nvJPEG cannot be used: nvjpegJpegStateCreate gave"));
  CHECK(nvjpeg->objects == 0);
  ::setenv("FOREBAY_NVJPEG", "/there/is/none.so", 1);
  CHECK(contains(notice_on("cuda"), "none: nvJPEG cannot be used: FOREBAY_NVJPEG = /there/is/none.so: "));

  const auto dataset = std::make_shared<JpegDataset>(files());
  const Run expected = run(options_of(JpegLibrary::turbo), dataset);
  for (const std::string device : {"cuda", "host"}) {
    Options options = options_of(JpegLibrary::nvjpeg);
    options.device = device;
    const Run found = run(options, dataset);
    CHECK(found.batches == expected.batches);
    CHECK(found.summary.nvjpeg_samples + found.summary.nvjpeg_fallbacks == 0);
  }
}

TEST_CASE("no room on the GPU for decoding leaves the run as it was") {
  const FakeCuda machine({.memory = std::size_t{48} << 20});
  const UseFakeNvjpeg nvjpeg;
  const auto dataset = std::make_shared<JpegDataset>(files());
  const Run found = run(options_of(JpegLibrary::nvjpeg, 2), dataset);
  CHECK(samples_of(found, options_of(JpegLibrary::nvjpeg)) == 120);
  CHECK(found.summary.nvjpeg_samples == 0);
}

}  // namespace
}  // namespace forebay::testing
