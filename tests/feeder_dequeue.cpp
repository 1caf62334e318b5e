#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include <forebay/feeder.hpp>

#include "make/renderers.hpp"
#include "memory_dataset.hpp"

// transform.when = "dequeue", from files to leases.
namespace forebay {
namespace {

using testing::memory_options;
using testing::MemoryDataset;

Options dequeue_options() {
  Options options = memory_options(4);
  options.transform.when = When::dequeue;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {3, 3};
  options.transform.canvas = {4, 4};
  options.transform.mirror = 0.5;
  options.transform.dtype = DType::float32;
  options.transform.layout = Layout::nchw;
  options.run.epochs = 2;
  return options;
}

// What was served, by epoch, batch and use.
using Served = std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, std::vector<std::byte>>;

Served run(const Options& options, std::uint64_t samples) {
  Feeder feeder(options, Parts{.dataset = std::make_shared<MemoryDataset>(samples)});
  Served served;
  while (auto batch = feeder.next()) {
    std::vector<std::byte> bytes(batch->images().bytes());
    batch->copy_to_host(bytes);
    served.emplace(std::tuple(batch->epoch(), batch->batch(), batch->use_index()), std::move(bytes));
  }
  return served;
}

TEST_CASE("every serving of a batch shows another view of it, the same ones in every run") {
  Options options = dequeue_options();
  options.policy.name = "interval";
  options.policy.interval = 3;
  options.queue.pool = 1;
  const Served one = run(options, 40);
  options.workers.decode = 1;
  options.workers.io = 1;
  CHECK(run(options, 40) == one);
  CHECK(one.size() == 19 * 3 + 1);  // the run ends with the last fresh batch
  std::set<std::vector<std::byte>> different;
  for (const auto& [use, bytes] : one) different.insert(bytes);
  CHECK(different.size() > 50);  // views of 4 x 4 pixels may be alike
  options.seed += 1;
  CHECK(run(options, 40) != one);
}

TEST_CASE("a lease shows what the renderer's definition gives, at one address while one is held at a time") {
  const Options options = dequeue_options();
  Feeder feeder(options, Parts{.dataset = std::make_shared<MemoryDataset>(20)});
  TwinRenderer twin(make_render_plan(options.transform, options.seed, false, 4));
  const CanvasFormat format{.batch_size = 4, .height = 4, .width = 4};
  const void* address = nullptr;
  while (auto batch = feeder.next()) {
    std::vector<std::byte> canvases(format.batch_bytes());
    for (std::uint32_t i = 0; i < batch->size(); ++i) {
      const CanvasInfo info{.width = 4, .height = 4, .canvas_width = 4, .canvas_height = 4};
      std::memcpy(canvases.data() + format.infos_offset() + i * sizeof(info), &info, sizeof(info));
      for (std::size_t pixel = 0; pixel < 16; ++pixel) {
        const auto grey = MemoryDataset::pixel(batch->ids()[i], pixel);
        const std::size_t at = i * format.place_bytes() + pixel / 4 * format.row_bytes() + 3 * (pixel % 4);
        std::memset(canvases.data() + at, grey, 3);
      }
    }
    std::vector<std::byte> expected(batch->images().bytes());
    twin.render({.canvases = canvases.data(),
                 .size = batch->size(),
                 .epoch = batch->epoch(),
                 .first_position = batch->batch() * 4,
                 .use_index = batch->use_index()},
                expected.data(), {});
    CHECK(std::memcmp(expected.data(), batch->images().data, expected.size()) == 0);
    if (address == nullptr) address = batch->images().data;
    CHECK(batch->images().data == address);
  }
}

TEST_CASE("two leases on one batch have two tensors, each whole until it ends") {
  Options options = dequeue_options();
  options.policy.name = "interval";
  options.policy.interval = 2;
  options.queue.pool = 1;
  Feeder feeder(options, Parts{.dataset = std::make_shared<MemoryDataset>(40)});
  auto first = feeder.next();
  REQUIRE(first);
  std::vector<std::byte> before(first->images().bytes());
  first->copy_to_host(before);
  auto second = feeder.next();
  REQUIRE(second);
  CHECK(second->use_index() == 1);
  CHECK(second->batch() == first->batch());
  CHECK(second->images().data != first->images().data);
  CHECK(std::memcmp(before.data(), first->images().data, before.size()) == 0);
  const void* const free = first->images().data;
  first->release();
  const auto third = feeder.next();
  REQUIRE(third);
  CHECK(third->images().data == free);
}

TEST_CASE("an evaluation shows each sample once, from its middle, short batch and all") {
  Options options = dequeue_options();
  options.run.eval = true;
  const Served served = run(options, 10);
  CHECK(served.size() == 3);
  CHECK(served.at({0, 2, 0}).size() == 2UL * 3 * 3 * 3 * 4);
  options.seed += 1;
  CHECK(run(options, 10) == served);
}

}  // namespace
}  // namespace forebay
