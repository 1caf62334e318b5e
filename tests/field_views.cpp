// What views make of masks and boxes, and Lease::views(), which says what a view is; files that lie beside images.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "dataset_support.hpp"
#include "field_dataset.hpp"
#include "support.hpp"
#include "viewed_dataset.hpp"

namespace forebay {
namespace {

using testing::Bytes;
using testing::contains;
using testing::error_of;
using testing::FieldDataset;
using testing::kHeight;
using testing::kWidth;
using testing::mask_png;
using testing::mask_value;
using testing::memory_options;
using testing::png_of;
using testing::ramp;
using testing::TemporaryDirectory;
using testing::ViewedDataset;

Options viewed_options() {
  Options options = memory_options(6);
  options.transform.crop = Crop::random_resized;
  options.transform.scale = {0.2, 1.0};
  options.transform.mirror = 0.5;
  options.transform.size = {20, 28};
  options.run.epochs = 2;
  return options;
}

Feeder feeder_of(const Options& options, std::shared_ptr<const Dataset> dataset) {
  return Feeder(options, Parts{.dataset = std::move(dataset)});
}

// Red or green of a sample's pixel.
int channel(const Lease& batch, std::size_t sample, std::int64_t y, std::int64_t x, std::size_t c) {
  const TensorView images = batch.images();
  const auto at = ((static_cast<std::int64_t>(sample) * images.shape[1] + y) * images.shape[2] + x) * 3;
  return images.as<std::uint8_t>()[static_cast<std::size_t>(at) + c];
}

// Whether the view is what the sample's pixels show, to about a pixel.
bool shows(const Lease& batch, std::size_t sample, const SampleView& view) {
  const Box& region = view.region;
  const std::int64_t height = batch.images().shape[1];
  const std::int64_t width = batch.images().shape[2];
  bool same = view.width == kWidth && view.height == kHeight;
  for (const std::int64_t x : {width / 4, width / 2, width - width / 4}) {
    const double across = (static_cast<double>(view.mirror ? width - 1 - x : x) + 0.5) / static_cast<double>(width);
    const double red = 2 * (region.left + across * region.width() - 0.5);
    same = same && std::abs(channel(batch, sample, height / 2, x, 0) - red) <= 3;
  }
  const double green = 2 * (region.top + 0.5 * region.height() - 0.5);
  return same && std::abs(channel(batch, sample, height / 2, width / 2, 1) - green) <= 5;
}

}  // namespace

TEST_CASE("lease.views() is what the pixels show, as tensors and as canvases, at every use") {
  Options options = viewed_options();
  options.transform.exif = false;
  bool dequeue = false;
  SUBCASE("assembled") {}
  SUBCASE("canvases") { dequeue = true; }
  auto dataset = std::make_shared<ViewedDataset>(std::vector<Field>{});
  if (dequeue) options.transform.canvas = {96, 128};
  options.transform.when = dequeue ? When::dequeue : When::enqueue;
  options.policy.name = "interval";
  options.policy.interval = 2;
  Feeder feeder = feeder_of(options, dataset);
  std::set<std::pair<std::int32_t, bool>> seen;
  while (const auto batch = feeder.next()) {
    const std::vector<SampleView> views = batch->views();
    REQUIRE(views.size() == batch->size());
    for (std::size_t i = 0; i < views.size(); ++i) {
      CHECK(shows(*batch, i, views[i]));
      seen.emplace(views[i].region.left, views[i].mirror);
    }
  }
  CHECK(seen.size() > 10);
}

TEST_CASE("a view of a box is within it, and says so in pixels of the whole image") {
  Options options = viewed_options();
  SUBCASE("assembled") {}
  SUBCASE("canvases") { options.transform.when = When::dequeue; }
  auto dataset = std::make_shared<ViewedDataset>(std::vector<Field>{});
  dataset->box = Box{30, 10, 90, 60};
  Feeder feeder = feeder_of(options, dataset);
  while (const auto batch = feeder.next()) {
    const std::vector<SampleView> views = batch->views();
    for (std::size_t i = 0; i < views.size(); ++i) {
      const Box& region = views[i].region;
      CHECK(region.left >= 30);
      CHECK(region.top >= 10);
      CHECK(region.right <= 90);
      CHECK(region.bottom <= 60);
      CHECK(shows(*batch, i, views[i]));
    }
  }
}

TEST_CASE("a mask shows the nearest pixels of its image's view") {
  DType dtype = DType::uint8;
  SUBCASE("bytes") {}
  SUBCASE("64 bits") { dtype = DType::int64; }
  const Options options = viewed_options();
  Feeder feeder = feeder_of(options, std::make_shared<ViewedDataset>(std::vector{ViewedDataset::mask(dtype)}));
  const std::size_t number = feeder.field_number("mask");
  CHECK(number == 2);
  CHECK(feeder.fields()[number].shape == Shape{20, 28});
  std::size_t wrong = 0;
  while (const auto batch = feeder.next()) {
    const TensorView masks = batch->field(number);
    REQUIRE(masks.shape == Shape{batch->size(), 20, 28});
    CHECK(masks.dtype == dtype);
    CHECK(reinterpret_cast<std::uintptr_t>(masks.data) % 256 == 0);
    const std::vector<SampleView> views = batch->views();
    for (std::size_t i = 0; i < views.size(); ++i) {
      const Box& region = views[i].region;
      for (std::size_t y = 0; y < 20; ++y) {
        for (std::size_t x = 0; x < 28; ++x) {
          const std::size_t across = views[i].mirror ? 27 - x : x;
          const auto from_x = region.left + static_cast<std::int32_t>(
                                                std::floor((static_cast<double>(across) + 0.5) * region.width() / 28));
          const auto from_y =
              region.top + static_cast<std::int32_t>(std::floor((static_cast<double>(y) + 0.5) * region.height() / 20));
          const std::size_t at = (i * 20 + y) * 28 + x;
          const std::int64_t value =
              dtype == DType::uint8 ? masks.as<std::uint8_t>()[at] : masks.as<std::int64_t>()[at];
          wrong += value == mask_value(from_x, from_y) ? 0 : 1;
        }
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("boxes are moved, clipped and left out like what they show") {
  const Options options = viewed_options();
  auto dataset = std::make_shared<ViewedDataset>(std::vector{FieldDataset::boxes(4)});
  dataset->boxes = {{10, 10, 40, 50, 0}, {60.5F, 20, 95, 40.25F, 1}, {-20, 30, 20, 90, -1}};
  Feeder feeder = feeder_of(options, dataset);
  const std::size_t number = feeder.field_number("boxes");
  CHECK(feeder.field_number("boxes.class") == number + 1);
  std::set<std::int32_t> numbers_seen;
  while (const auto batch = feeder.next()) {
    const TensorView boxes = batch->field("boxes");
    const TensorView classes = batch->field(number + 1);
    const TensorView counts = batch->counts(number);
    REQUIRE(boxes.shape == Shape{batch->size(), 4, 4});
    REQUIRE(classes.shape == Shape{batch->size(), 4});
    REQUIRE(counts.shape == Shape{batch->size()});
    const std::vector<SampleView> views = batch->views();
    for (std::size_t i = 0; i < views.size(); ++i) {
      const Box& region = views[i].region;
      std::vector<std::array<double, 5>> expected;
      for (const LabelledBox& box : dataset->boxes) {
        // Its part of the image, and of that what the view shows.
        const double left = std::max<double>(box.left, 0);
        const double bottom = std::min<double>(box.bottom, kHeight);
        const double l = std::max<double>(left, region.left);
        const double t = std::max<double>(box.top, region.top);
        const double r = std::min<double>(box.right, region.right);
        const double b = std::min<double>(bottom, region.bottom);
        if (l >= r || t >= b || (r - l) * (b - t) < 0.25 * (box.right - left) * (bottom - box.top)) continue;
        const double sx = 28.0 / region.width();
        const double sy = 20.0 / region.height();
        double x0 = (l - region.left) * sx;
        double x1 = (r - region.left) * sx;
        if (views[i].mirror) x0 = 28 - std::exchange(x1, 28 - x0);
        expected.push_back({x0, (t - region.top) * sy, x1, (b - region.top) * sy, static_cast<double>(box.label)});
      }
      const auto count = static_cast<std::size_t>(counts.as<std::int32_t>()[i]);
      numbers_seen.insert(static_cast<std::int32_t>(count));
      REQUIRE(count == expected.size());
      for (std::size_t j = 0; j < 4; ++j) {
        const float* const box = boxes.as<float>() + (i * 4 + j) * 4;
        for (std::size_t k = 0; k < 4; ++k) {
          CHECK(box[k] == doctest::Approx(j < count ? expected[j][k] : 0.0).epsilon(1e-5));
        }
        CHECK(classes.as<std::int64_t>()[i * 4 + j] == (j < count ? static_cast<std::int64_t>(expected[j][4]) : -1));
      }
    }
  }
  CHECK(numbers_seen.size() > 2);
}

TEST_CASE("an operation that may move pixels is refused where a field would have to follow") {
  struct Own final : Operation {
    explicit Own(bool keeps) : keeps_(keeps) {}
    void apply(const PixelView& /*view*/, Random& /*random*/) const override {}
    [[nodiscard]] bool keeps_places() const noexcept override { return keeps_; }
    bool keeps_;
  };
  const auto refusal = [](bool keeps, const std::vector<Field>& fields) {
    Options options = viewed_options();
    options.transform.operations = {"colour", "own"};
    Parts parts{.dataset = std::make_shared<ViewedDataset>(fields)};
    parts.operations = OperationRegistry::builtin();
    parts.operations.add("own", [keeps](const TransformOptions&) { return std::make_unique<Own>(keeps); });
    return error_of([&] { Feeder feeder(options, std::move(parts)); });
  };
  CHECK(contains(refusal(false, {ViewedDataset::mask()}), "\"own\" may move pixels, which the field \"mask\""));
  CHECK(refusal(true, {ViewedDataset::mask()}).empty());
  CHECK(refusal(false, {}).empty());
}

TEST_CASE("masks and notes that lie beside images are served with them, from a saved index too") {
  const TemporaryDirectory folder;
  const auto save = [&](const std::string& name, const Bytes& bytes) {
    testing::write_file(folder / name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  for (const std::string name : {"cat/a", "cat/b", "dog/a", "dog/c"}) {
    save("photos/" + name + ".png", png_of(kWidth, kHeight, ramp(), false));
    save("masks/" + name + ".png", mask_png());
    if (name != "dog/c") testing::write_file(folder / ("notes/" + name + ".txt"), name);
  }
  Options options = viewed_options();
  options.dataset.path = (folder / "photos").string();
  options.dataset.index = (folder / "index").string();
  options.dataset.batch_size = 2;
  options.dataset.fields = {
      {.name = "mask", .from = "../masks/{folder}/{stem}.png", .kind = FieldKind::mask},
      {.name = "note", .from = "../notes/{folder}/{stem}.txt", .kind = FieldKind::bytes, .most = 8}};
  for (int time = 0; time < 2; ++time) {
    Feeder feeder(options);
    std::set<std::string> notes;
    while (const auto batch = feeder.next()) {
      const std::size_t note = feeder.field_number("note");
      for (std::size_t i = 0; i < batch->size(); ++i) {
        const auto bytes = static_cast<std::size_t>(batch->counts(note).as<std::int32_t>()[i]);
        const std::string text(batch->field(note).as<char>() + i * 8, bytes);
        CHECK(contains(feeder.dataset().name(batch->ids()[i]), text));
        notes.insert(text);
      }
    }
    CHECK(notes == std::set<std::string>{"cat/a", "cat/b", "dog/a"});
    CHECK(feeder.summary().bad_samples == 1);  // dog/c has none
  }
  // Of images in the root {folder} is nothing, and its slash with it.
  Options flat = options;
  flat.dataset.path = (folder / "photos/cat/list.txt").string();
  testing::write_file(flat.dataset.path, "a.png\nb.png\n");
  flat.dataset.index.clear();
  flat.dataset.fields = {{.name = "mask", .from = "../../masks/cat/{folder}/{stem}.png", .kind = FieldKind::mask}};
  Feeder in_root(flat);
  CHECK(in_root.next()->size() == 2);
  CHECK(in_root.summary().bad_samples == 0);

  const auto refusal = [&](FieldOptions field) {
    Options changed = options;
    changed.dataset.index.clear();
    changed.dataset.fields = {std::move(field)};
    return error_of([&] { Feeder feeder(changed); });
  };
  CHECK(contains(refusal({.name = "mask", .from = "../maks/{stem}.png", .kind = FieldKind::mask}),
                 "fields.mask.from: \"../maks/{stem}.png\" names no file that can be used; the first is"));
  CHECK(contains(refusal({.name = "mask", .kind = FieldKind::mask}), "give a pattern of files beside the images"));
  CHECK(contains(refusal({.name = "label", .from = "x"}), "leave this section out"));
  options.dataset.fields.pop_back();
  CHECK(contains(error_of([&] { Feeder feeder(options); }), "was built for other sections [fields.NAME]"));
}

}  // namespace forebay
