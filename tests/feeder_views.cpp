// transform.views: several views of each sample in a batch, from one decode.
#include <forebay/feeder.hpp>

#include "field_dataset.hpp"
#include "jpeg_support.hpp"
#include "make/sample_maker.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::test_feeder_views {
namespace {

using namespace testing;
using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kViews = 3;

std::vector<Bytes> files() {
  std::vector<Bytes> all;
  for (int i = 0; i < 14; ++i) {
    Recipe recipe;
    recipe.width = 60 + 31 * i;
    recipe.height = 420 - 25 * i;
    recipe.progressive = i % 4 == 0;
    recipe.app1 = exif_segment(1 + i % 8);
    all.push_back(make_jpeg(recipe));
  }
  return all;
}

Options options_of(std::int64_t views) {
  Options options = memory_options(4);
  options.run.epochs = 2;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {24, 40};
  options.transform.mirror = 0.5;
  options.transform.views = views;
  return options;
}

TEST_CASE("each view has the bytes of a decode of its own, however much is decoded, with operations and without") {
  const std::vector<Bytes> all = files();
  const auto dataset = std::make_shared<JpegDataset>(all);
  for (const Decode decode : {Decode::region, Decode::full, Decode::scaled}) {
    for (const std::vector<std::string>& operations : {std::vector<std::string>{}, {"colour", "erase"}}) {
      Options options = options_of(kViews);
      options.transform.decode = decode;
      options.transform.operations = operations;
      const make::OperationChain chain(OperationRegistry::builtin(), options.transform, false);
      const make::SampleMaker maker(options.transform, options.seed, false, chain);
      make::SampleMaker::Workspace workspace;
      Bytes alone(maker.sample_bytes());
      Feeder feeder(options, Parts{.dataset = dataset});
      std::uint64_t rows = 0;
      std::uint64_t wrong = 0;
      std::set<Bytes> different;
      while (const auto batch = feeder.next()) {
        REQUIRE(batch->rows() == kViews * batch->size());
        REQUIRE(batch->images().shape == Shape{batch->rows(), 24, 40, 3});
        const std::vector<SampleView> views = batch->views();
        REQUIRE(views.size() == batch->rows());
        for (std::uint32_t row = 0; row < batch->rows(); ++row, ++rows) {
          SampleView view;
          const std::uint64_t position = batch->batch() * 4 * kViews + row;
          maker.make(all[batch->ids()[row / kViews]], {}, batch->epoch(), position, make::SamplePlace(alone, {}, &view),
                     workspace);
          wrong += std::memcmp(alone.data(), batch->images().as<std::byte>() + row * alone.size(), alone.size()) != 0;
          wrong += views[row].region != view.region || views[row].mirror != view.mirror;
          different.insert(alone);
        }
      }
      CHECK(rows == 2 * all.size() * kViews);
      CHECK(wrong == 0);
      CHECK(different.size() > rows * 9 / 10);
      CHECK(feeder.profile().own_jpeg <= 1);  // counts samples, not views, of some steps
    }
  }
}

TEST_CASE("what is beside the image stands in every row of its sample") {
  for (const When when : {When::enqueue, When::dequeue}) {
    Options options = options_of(kViews);
    options.transform.when = when;
    const auto dataset = std::make_shared<FieldDataset>(22);
    Feeder feeder(options, Parts{.dataset = dataset});
    std::set<std::uint64_t> seen;
    while (const auto batch = feeder.next()) {
      REQUIRE(batch->labels().size() == batch->rows());
      for (std::uint32_t row = 0; row < batch->rows(); ++row) {
        const std::uint64_t id = batch->ids()[row / kViews];
        seen.insert(id);
        CHECK(batch->labels()[row] == dataset->sample(id).label);
        for (std::size_t i = 0; i < dataset->fields().size(); ++i) {
          const Field& field = dataset->fields()[i];
          const TensorView tensor = batch->field(field.name);
          REQUIRE(tensor.shape[0] == batch->rows());
          const std::size_t size = tensor.bytes() / batch->rows();
          Bytes expected = FieldDataset::field_bytes(id, field);
          if (is_ragged(field.kind)) {
            CHECK(batch->counts_on_host(2 + i)[row] == static_cast<std::int32_t>(expected.size()));
          }
          expected.resize(size);
          CHECK(std::memcmp(tensor.as<std::byte>() + row * size, expected.data(), size) == 0);
        }
      }
    }
    CHECK(seen.size() == 22);
  }
}

TEST_CASE("a run counts samples and not views, and is resumed in the middle of an epoch") {
  std::uint64_t samples = 0;
  const auto serve = [&](Feeder& feeder, std::size_t most) {
    std::vector<Bytes> batches;
    while (batches.size() < most) {
      const auto batch = feeder.next();
      if (!batch) break;
      CHECK(batch->job_fresh_samples() == samples);
      samples += batch->size();
      const auto* const first = batch->images().as<std::byte>();
      batches.emplace_back(first, first + batch->images().bytes());
    }
    return batches;
  };
  Feeder whole(options_of(2), parts(30));
  const std::vector<Bytes> all = serve(whole, SIZE_MAX);
  CHECK(all.size() == 2 * 8);
  CHECK(std::exchange(samples, 0) == 60);
  Feeder begun(options_of(2), parts(30));
  std::vector<Bytes> served = serve(begun, 5);
  Feeder resumed(options_of(2), parts(30));
  resumed.restore_state(begun.state());
  for (Bytes& batch : serve(resumed, SIZE_MAX)) served.push_back(std::move(batch));
  CHECK(served == all);
}

TEST_CASE("a bad sample's stand-in has all views, and evaluation one") {
  std::vector<Bytes> all = files();
  for (const std::size_t bad : {2, 7}) all[bad].resize(all[bad].size() / 2);
  Options options = options_of(kViews);
  Feeder feeder(options, Parts{.dataset = std::make_shared<JpegDataset>(all)});
  std::uint64_t rows = 0;
  while (const auto batch = feeder.next()) {
    rows += batch->rows();
    for (const std::uint64_t id : batch->ids()) CHECK((id != 2 && id != 7));
  }
  CHECK(rows == 2 * all.size() * kViews);
  CHECK(feeder.summary().bad_samples > 0);

  options.run.eval = true;
  options.run.epochs = 1;
  Feeder evaluation(options, Parts{.dataset = std::make_shared<JpegDataset>(all)});
  rows = 0;
  while (const auto batch = evaluation.next()) {
    CHECK(batch->rows() == batch->size());
    rows += batch->rows();
  }
  CHECK(rows == all.size() - 2);
}

}  // namespace
}  // namespace forebay::test_feeder_views
