#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "make/operation_chain.hpp"
#include "make/sample_maker.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"

// Operations depend on (seed, epoch, position) alone, whichever rank makes a sample.

using namespace forebay;
using namespace forebay::testing;

namespace {

class Shift final : public Operation {
 public:
  void apply(const PixelView& view, Random& random) const override {
    for (Pixel& pixel : view.pixels) pixel.red = static_cast<std::uint8_t>(pixel.red + random.below(256));
  }
};

class Fails final : public Operation {
 public:
  void apply(const PixelView& /*view*/, Random& /*random*/) const override { throw std::runtime_error("cannot"); }
};

OperationRegistry registry() {
  OperationRegistry all = OperationRegistry::builtin();
  all.add("shift", [](const TransformOptions&) { return std::make_unique<Shift>(); });
  all.add("fails", [](const TransformOptions&) { return std::make_unique<Fails>(); });
  return all;
}

Options options_with(std::vector<std::string> operations) {
  Options options = memory_options(4);
  options.dataset.drop_last = true;
  options.transform.operations = std::move(operations);
  options.run.epochs = 3;
  return options;
}

std::vector<std::byte> pixels_of(std::uint64_t id) {
  std::vector<std::byte> bytes(std::size_t{MemoryDataset::kSide} * MemoryDataset::kSide);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(MemoryDataset::pixel(id, i));
  return bytes;
}

}  // namespace

TEST_CASE("every rank serves what the sample's place in the epoch says") {
  const Options options = options_with({"shift", "colour", "erase"});
  const auto dataset = std::make_shared<MemoryDataset>(96);
  const SampleMaker maker(options.transform, options.seed, false, Transform::Stores::normal,
                          OperationChain(registry(), options.transform, false));
  SampleMaker::Workspace workspace;
  std::vector<std::byte> expected(maker.sample_bytes());
  Feeder feeder(options, world(), Parts{.dataset = dataset, .operations = registry()});
  std::uint64_t wrong = 0;
  std::uint64_t samples = 0;
  while (const auto batch = feeder.next()) {
    std::vector<std::byte> served(batch->images().bytes());
    batch->copy_to_host(served);
    for (std::uint32_t i = 0; i < batch->size(); ++i, ++samples) {
      const std::uint64_t id = batch->ids()[i];
      maker.make(pixels_of(id), dataset->sample(id), batch->epoch(), batch->batch() * 4 + i, std::span(expected),
                 workspace);
      const std::span<const std::byte> given = std::span(served).subspan(i * expected.size(), expected.size());
      if (!std::equal(given.begin(), given.end(), expected.begin())) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(samples > 0);
}

TEST_CASE("what an operation throws ends the run on every rank") {
  const auto run = [] {
    Feeder feeder(options_with({"fails"}), world(),
                  Parts{.dataset = std::make_shared<MemoryDataset>(96), .operations = registry()});
    while (feeder.next()) {
    }
  };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("the operation \"fails\" of transform.operations failed: cannot"),
                       Error);
}
