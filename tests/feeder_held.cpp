#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "held_support.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg_dataset.hpp"
#include "make/renderers.hpp"
#include "support.hpp"

// transform.hold = "coefficients": in slots, and from files to leases.
namespace forebay {
namespace {

using testing::files_to_hold;
using testing::HeldSlot;
using testing::holding_options;
using testing::JpegDataset;
using Bytes = std::vector<std::byte>;

const PixelKernels* own_kernels() {
  const PixelKernels* const kernels = trusted_pixel_kernels();
  REQUIRE(kernels != nullptr);
  return kernels;
}

Bytes rendered(CanvasRenderer& renderer, const RenderPlan& plan, const RenderBatch& batch) {
  Bytes out(plan.sample_bytes() * batch.size);
  renderer.render(batch, out.data(), {});
  return out;
}

// A place with room for all of these images' pixels holds what their views are cut out of just as well.
TEST_CASE("a serving of coefficients is that of a canvas of the image's own size, by the host and by its twin") {
  const auto files = files_to_hold();
  const auto count = static_cast<std::uint32_t>(files.size());
  for (const Crop crop : {Crop::random_resized, Crop::center, Crop::none}) {
    TransformOptions options = holding_options(25, 31, 200);
    options.crop = crop;
    options.operations = {"colour", "erase"};
    TransformOptions pixels = options;
    pixels.hold = Hold::pixels;
    HeldSlot held(options, count, own_kernels());
    HeldSlot canvases(pixels, count, own_kernels());
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool is_boxed = i >= 54 && i % 2 == 0;  // those that are large enough
      const std::optional<Box> box = is_boxed ? std::optional(Box{3, 2, 43, 40}) : std::nullopt;
      CHECK(held.put(i, files[i], box) == CanvasForm::coefficients);
      CHECK(canvases.put(i, files[i], box) == CanvasForm::pixels);
    }
    const RenderPlan plan = make_render_plan(options, 7, false, count);
    TwinRenderer twin(plan);
    HostRenderer host(options, plan);
    TwinRenderer expected(make_render_plan(pixels, 7, false, count));
    for (std::uint64_t use = 0; use < 3; ++use) {
      const Bytes bytes = rendered(expected, plan, canvases.batch(1, 40, use));
      CHECK(rendered(twin, plan, held.batch(1, 40, use)) == bytes);
      CHECK(rendered(host, plan, held.batch(1, 40, use)) == bytes);
    }
  }
}

TEST_CASE("what is too much for a place, or no plain JPEG, is a canvas of pixels in it") {
  TransformOptions options = holding_options(20, 20, 32);
  HeldSlot slot(options, 1, own_kernels());
  const auto noise = [](std::int32_t width, std::int32_t height, int quality) {
    return encoded_noise({.width = width, .height = height, .h = 2, .v = 2, .quality = quality});
  };
  CHECK(slot.put(0, noise(48, 48, 30)) == CanvasForm::coefficients);
  CHECK(slot.put(0, noise(120, 90, 100)) == CanvasForm::pixels);  // too many bytes
  CHECK(slot.put(0, noise(161, 16, 1)) == CanvasForm::pixels);    // wider than 8 times 20
  CHECK(slot.put(0, testing::make_jpeg({.progressive = true})) == CanvasForm::pixels);
  CHECK(slot.held() == 1);
  HeldSlot by_turbo(options, 1, nullptr);
  CHECK(by_turbo.put(0, noise(48, 48, 30)) == CanvasForm::pixels);
  // It has the bytes that it would have had without coefficients.
  options.hold = Hold::pixels;
  HeldSlot canvases(options, 1, own_kernels());
  const RenderPlan plan = make_render_plan(options, 7, false, 1);
  for (const Bytes& file : {noise(120, 90, 100), testing::make_jpeg({.progressive = true})}) {
    CHECK(slot.put(0, file) == CanvasForm::pixels);
    (void)canvases.put(0, file);
    HostRenderer renderer(options, plan);
    CHECK(rendered(renderer, plan, slot.batch(0, 0, 0)) == rendered(renderer, plan, canvases.batch(0, 0, 0)));
  }
}

Options feeding(Hold hold, std::int64_t canvas) {
  Options options = testing::memory_options(4);
  options.transform = holding_options(25, 31, canvas);
  options.transform.hold = hold;
  options.run.epochs = 2;
  options.policy.name = "interval";
  options.policy.interval = 3;
  options.queue.pool = 1;
  return options;
}

// What was served, by epoch, batch and use.
using Served = std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, Bytes>;

void serve(Feeder& feeder, Served& served, std::size_t most = SIZE_MAX) {
  while (most-- > 0) {
    const auto batch = feeder.next();
    if (!batch) return;
    Bytes bytes(batch->images().bytes());
    batch->copy_to_host(bytes);
    served.emplace(std::tuple(batch->epoch(), batch->batch(), batch->use_index()), std::move(bytes));
  }
}

Served run(const Options& options, const std::vector<Bytes>& files, const std::optional<Box>& box = {}) {
  Feeder feeder(options, Parts{.dataset = std::make_shared<JpegDataset>(files, box)});
  Served served;
  serve(feeder, served);
  return served;
}

TEST_CASE("a feeder serves the views of whole images, another one at each use, with any number of threads") {
  const auto files = files_to_hold();
  const Served pixels = run(feeding(Hold::pixels, 200), files);
  CHECK(pixels.size() > 30);
  Options options = feeding(Hold::coefficients, 200);
  CHECK(run(options, files) == pixels);
  options.workers.decode = 1;
  options.workers.io = 1;
  CHECK(run(options, files) == pixels);
  // In a place that is too small for most of the pixels, and for no coefficients.
  options.transform.canvas = {100, 100};
  CHECK(run(options, files) == pixels);
}

TEST_CASE("a view of coefficients has the pixels that when = enqueue gives it") {
  const std::vector<Bytes> files = files_to_hold();
  Options options = feeding(Hold::coefficients, 200);
  options.transform.crop = Crop::center;
  options.transform.mirror = 0;
  options.policy.name = "block";
  const Served held = run(options, files);
  Options at_once = options;
  at_once.transform.when = When::enqueue;
  at_once.transform.hold = Hold::pixels;
  CHECK(run(at_once, files) == held);
}

TEST_CASE("a feeder serves boxes of images from their coefficients") {
  constexpr int kFiles = 12;
  std::vector<Bytes> files;
  files.reserve(kFiles);
  for (int i = 0; i < kFiles; ++i) {
    files.push_back(encoded_noise({.width = 100 + i, .height = 90, .h = 1 + i % 2, .v = 1 + i / 2 % 2}));
  }
  const std::optional<Box> box = Box{21, 34, 83, 71};
  CHECK(run(feeding(Hold::coefficients, 200), files, box) == run(feeding(Hold::pixels, 200), files, box));
}

TEST_CASE("a run that holds coefficients resumes with what it would have served") {
  const auto files = files_to_hold();
  Options options = feeding(Hold::coefficients, 200);
  options.policy.name = "block";
  const Served all = run(options, files);
  const testing::TemporaryDirectory dir;
  const std::string state = (dir / "state").string();
  Served served;
  {
    Feeder feeder(options, Parts{.dataset = std::make_shared<JpegDataset>(files)});
    serve(feeder, served, 5);
    feeder.save(state);
    feeder.finish_saves();
  }
  Feeder feeder(options, Parts{.dataset = std::make_shared<JpegDataset>(files)});
  CHECK(feeder.restore_if_present(state));
  serve(feeder, served);
  CHECK(served == all);
}

TEST_CASE("what cannot hold coefficients is refused by name") {
  const auto refusal = [](Options options) { return testing::error_of([&] { return validate(options), 0; }); };
  Options options = feeding(Hold::coefficients, 0);
  CHECK(refusal(options).empty());
  options.workers.jpeg = JpegLibrary::turbo;
  CHECK(testing::contains(refusal(options), R"(transform.hold = "coefficients" needs workers.jpeg = "own")"));
  options = feeding(Hold::coefficients, 0);
  options.transform.when = When::enqueue;
  CHECK(testing::contains(refusal(options), R"(transform.hold = "coefficients" needs transform.when = "dequeue")"));
}

}  // namespace
}  // namespace forebay
