#include <doctest/doctest.h>

#include "jpeg_support.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/random.hpp>

#include "memory_dataset.hpp"
#include "produce/shared_read.hpp"

// Objects of one image that stand side by side in the order are read and decoded once.
namespace forebay {
namespace {

using testing::make_jpeg;
using testing::memory_options;
using testing::MemoryDataset;
using testing::Recipe;

// JPEG files with several boxes each; samples of a file follow one another.
class ObjectDataset final : public Dataset {
 public:
  struct Object {
    std::size_t file;
    Box box;
  };

  ObjectDataset(std::size_t files, std::size_t most_objects, std::uint64_t seed, bool told_apart)
      : told_apart_(told_apart) {
    Random random(seed);
    for (std::size_t file = 0; file < files; ++file) {
      Recipe recipe;
      recipe.width = 60 + static_cast<int>(random.below(200));
      recipe.height = 60 + static_cast<int>(random.below(200));
      recipe.progressive = random.below(4) == 0;
      files_.push_back(make_jpeg(recipe));
      for (std::uint64_t i = 1 + random.below(most_objects); i > 0; --i) {
        const auto left = static_cast<std::int32_t>(random.below(40));
        const auto top = static_cast<std::int32_t>(random.below(40));
        objects_.push_back({file,
                            {left, top, left + 1 + static_cast<std::int32_t>(random.below(100)),
                             top + 1 + static_cast<std::int32_t>(random.below(100))}});
      }
    }
  }

  [[nodiscard]] std::string_view format() const noexcept override { return "memory"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return objects_.size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return base_.classes(); }
  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    sample.label = static_cast<std::int64_t>(id % 10);
    sample.box = objects_[id].box;
    return sample;
  }
  [[nodiscard]] std::uint64_t source(std::uint64_t id) const override { return told_apart_ ? id : objects_[id].file; }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return base_.name(id); }
  void read(std::uint64_t id, ReadTarget& target) const override {
    ++reads_;
    const auto& file = files_[objects_[id].file];
    std::ranges::copy(file, target.reserve(file.size()).begin());
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return base_.skipped(); }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return base_.serialize(); }

  [[nodiscard]] std::size_t files() const { return files_.size(); }
  [[nodiscard]] std::uint64_t reads() const { return reads_; }

  std::vector<std::vector<std::byte>> files_;
  std::vector<Object> objects_;

 private:
  MemoryDataset base_{1};
  bool told_apart_;
  mutable std::atomic<std::uint64_t> reads_{0};
};

struct Outcome {
  std::map<std::uint64_t, std::vector<std::byte>> batches;
  std::map<std::uint64_t, std::vector<std::uint64_t>> ids;
  std::uint64_t bad = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// An epoch in the order of the dataset.
Outcome run(const std::shared_ptr<const Dataset>& dataset, Decode decode, Crop crop = Crop::random_resized,
            When when = When::enqueue) {
  Options options = memory_options(8);
  options.dataset.shuffle = false;
  options.transform.crop = crop;
  options.transform.size = {24, 20};
  options.transform.mirror = 0.5;
  options.transform.decode = decode;
  options.transform.when = when;
  Feeder feeder(options, Parts{.dataset = dataset});
  Outcome outcome;
  while (auto batch = feeder.next()) {
    const auto* bytes = batch->images().as<std::byte>();
    outcome.batches[batch->batch()].assign(bytes, bytes + batch->images().bytes());
    outcome.ids[batch->batch()].assign(batch->ids().begin(), batch->ids().end());
    for (std::size_t i = 0; i < batch->ids().size(); ++i) {
      CHECK(batch->labels()[i] == static_cast<std::int64_t>(batch->ids()[i] % 10));
    }
  }
  outcome.bad = feeder.summary().bad_samples;
  return outcome;
}

constexpr std::uint64_t kSeed = 20261121;

}  // namespace

TEST_CASE("requests of the same bytes become one, in order, up to a limit") {
  const ObjectDataset dataset(30, 40, kSeed, false);
  const Order order({.samples = dataset.size(), .batch_size = 64, .seed = 1, .shuffle = false});
  std::vector<ReadRequest> requests;
  for (std::uint32_t i = 0; i < 64; ++i) {
    add_request(requests, {.order = 640 + i, .position = i, .sample = i, .slot = 3, .index = i}, dataset);
  }
  CHECK(requests.size() < 32);
  std::uint32_t next = 0;
  for (const ReadRequest& request : requests) {
    REQUIRE(request.count >= 1);
    REQUIRE(request.count <= kMostOfOneRead);
    for (std::uint32_t i = 0; i < request.count; ++i, ++next) {
      const ReadRequest member = member_of(request, i, order);
      CHECK(member.order == 640 + next);
      CHECK(member.position == next);
      CHECK(member.sample == next);
      CHECK(member.index == next);
      CHECK(member.slot == 3);
      CHECK(member.count == 1);
      CHECK(dataset.source(member.sample) == dataset.source(request.sample));
    }
  }
  CHECK(next == 64);
}

TEST_CASE("objects decoded together are the same bytes as alone") {
  CAPTURE(kSeed);
  const auto together = std::make_shared<ObjectDataset>(40, 12, kSeed, false);
  const auto apart = std::make_shared<ObjectDataset>(40, 12, kSeed, true);
  for (const Decode decode : {Decode::region, Decode::full, Decode::scaled}) {
    for (const Crop crop : {Crop::none, Crop::random_resized}) {
      const std::uint64_t before = together->reads();
      const Outcome expected = run(apart, decode, crop);
      CHECK(run(together, decode, crop) == expected);
      CHECK(expected.bad == 0);
      // Each batch of 8 begins and ends within some image: those are read twice.
      CHECK(together->reads() - before <= together->files() + (together->size() + 7) / 8);
    }
  }
  CHECK(apart->reads() >= 6 * apart->size());
}

TEST_CASE("canvases of objects decoded together are the same bytes as alone") {
  CAPTURE(kSeed);
  const auto together = std::make_shared<ObjectDataset>(30, 12, kSeed, false);
  const auto apart = std::make_shared<ObjectDataset>(30, 12, kSeed, true);
  const Outcome expected = run(apart, Decode::region, Crop::random_resized, When::dequeue);
  CHECK(run(together, Decode::region, Crop::random_resized, When::dequeue) == expected);
  CHECK(run(together, Decode::full, Crop::random_resized, When::dequeue) == expected);
  CHECK(expected.bad == 0);
}

TEST_CASE("a bad object spoils no other of its image, and a bad image all of its own") {
  CAPTURE(kSeed);
  const auto make = [](bool told_apart) {
    auto dataset = std::make_shared<ObjectDataset>(20, 6, kSeed, told_apart);
    dataset->objects_[3].box = {5000, 5000, 5010, 5010};  // outside of its image
    dataset->objects_[10].box = {5000, 5000, 5010, 5010};
    dataset->files_[dataset->objects_.back().file].resize(200);
    return dataset;
  };
  const auto together = make(false);
  const Outcome outcome = run(together, Decode::region);
  CHECK(outcome == run(make(true), Decode::region));
  const auto in_bad_file = std::ranges::count_if(together->objects_, [&](const ObjectDataset::Object& object) {
    return object.file == together->objects_.back().file;
  });
  CHECK(outcome.bad == 2 + static_cast<std::uint64_t>(in_bad_file));
}

}  // namespace forebay
