// Fields of a batch besides image and label: how views change them, what is refused, and that a
// sample with a bad field is a bad sample. mpi_datasets.cpp tests the kinds that no view changes,
// on several ranks.
#include <forebay/feeder.hpp>
#include <forebay/interop.hpp>

#include "dataset_support.hpp"
#include "field_dataset.hpp"
#include "test.hpp"

namespace forebay::test_fields {
namespace {

using namespace testing;
using Bytes = FieldDataset::Bytes;

Feeder feeder_of(const Options& options, std::shared_ptr<const Dataset> dataset) {
  return Feeder(options, Parts{.dataset = std::move(dataset)});
}

TEST_CASE("a shape has up to eight extents, and a number has none") {
  CHECK(Shape{}.empty());
  CHECK(Shape{}.elements() == 1);
  const Shape shape{4, 3, 2};
  CHECK(shape.size() == 3);
  CHECK(shape[1] == 3);
  CHECK(shape.elements() == 24);
  CHECK(std::vector<std::int64_t>(shape.begin(), shape.end()) == std::vector<std::int64_t>{4, 3, 2});
  CHECK(shape == Shape{4, 3, 2});
  CHECK(shape == std::array<std::int64_t, 3>{4, 3, 2});
  CHECK(shape != Shape{4, 3});
  CHECK(shape != Shape{4, 3, 1});
  CHECK(Shape{7, 0, 7}.elements() == 0);
  Shape eight{1, 2, 3, 4, 5, 6, 7};
  eight.push_back(8);
  CHECK(eight.size() == Shape::kMost);
  CHECK_THROWS_AS(eight.push_back(9), Error);
}

TEST_CASE("every type has a size and a name") {
  const std::array types{DType::float32, DType::float16, DType::bfloat16, DType::uint8,
                         DType::int32,   DType::int64,   DType::float64};
  std::vector<std::size_t> sizes;
  for (const DType type : types) {
    sizes.push_back(size_of(type));
    CHECK(to_string(type) != "?");
  }
  CHECK(sizes == std::vector<std::size_t>{4, 2, 2, 1, 4, 8, 8});
}

TEST_CASE("in evaluation the fields of the samples that are left stay with them") {
  Options options = memory_options(5);
  options.run.eval = true;
  auto dataset = std::make_shared<FieldDataset>(23);
  dataset->replace_field = [](std::uint64_t id, const Field& field, Bytes& bytes) {
    if (field.name != "grid" || id % 4 != 1) return false;
    bytes.resize(23);
    return true;
  };
  Feeder feeder = feeder_of(options, dataset);
  std::set<std::uint64_t> ids;
  while (const auto batch = feeder.next()) {
    CHECK(are_right(*batch));
    ids.insert(batch->ids().begin(), batch->ids().end());
  }
  CHECK(ids.size() == 17);
}

TEST_CASE("a bad field makes a bad sample, which names the field and its file") {
  struct Case {
    Field field;
    Bytes bytes;
    std::string problem;
  };
  const auto bytes = [](const auto&... values) {
    Bytes all;
    (FieldDataset::add(all, values), ...);
    return all;
  };
  const Field age{.name = "age", .kind = FieldKind::numbers, .dtype = DType::float32, .shape = {2}};
  const Field half{.name = "half", .kind = FieldKind::numbers, .dtype = DType::bfloat16};
  const Field kind{.name = "kind", .kind = FieldKind::class_number, .dtype = DType::int32, .classes = {"a", "b"}};
  const Field note{.name = "note", .kind = FieldKind::bytes, .dtype = DType::uint8, .shape = {2}};
  const Field grid{.name = "grid", .kind = FieldKind::array, .dtype = DType::int32, .shape = {2}};
  const Field real{.name = "real", .kind = FieldKind::array, .dtype = DType::float32, .shape = {2}};
  const Field mask{.name = "mask", .kind = FieldKind::mask, .dtype = DType::uint8};
  const Field tags{.name = "tags", .kind = FieldKind::multilabel, .dtype = DType::float32, .shape = {2}};
  const Field bits{.name = "bits", .kind = FieldKind::multilabel, .dtype = DType::uint8, .shape = {2}};
  const Field boxes = FieldDataset::boxes(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases{
      {age, bytes(1.0F, nan), "number 1 of 2 is not finite"},
      {age, bytes(std::numeric_limits<float>::infinity(), 1.0F), "number 0 of 2 is not finite"},
      {age, bytes(1.0F), "4 bytes, but [2] of float32 are 8 bytes"},
      {age, {}, "0 bytes, but [2] of float32 are 8 bytes"},
      {half, bytes(std::uint16_t{0x7f80}), "number 0 of 1 is not finite"},
      {tags, bytes(1.0F, 0.5F), "number 1 of 2 is neither 1, for a class that applies, nor 0"},
      {tags, bytes(nan, 1.0F), "number 0 of 2 is neither 1"},
      {bits, bytes('\1', '\2'), "number 1 of 2 is neither 1"},
      {grid, bytes(1.0F), "4 bytes, neither an npy file nor the 8 of its elements"},
      {grid, npy_of("<f4", "(3,)", bytes(1.0F, 2.0F, 3.0F)), "an array of shape (3,) where another one is wanted"},
      {grid, npy_of("<f4", "(2,)", bytes(1.0F, 2.0F)), "an array of float32, which int32 does not hold"},
      {grid, npy_of("<i8", "(2,)", bytes(std::int64_t{1}, std::int64_t{1} << 40)),
       "an array of int64 with 1099511627776, which int32 does not hold"},
      {grid, npy_of("<i4", "(2,)", bytes(std::int32_t{1})), ""},
      {real, npy_of("<f8", "(2,)", bytes(1.0, 1e300)), "an array of float64 with 1e+300, which float32 does not hold"},
      {kind, bytes(std::int32_t{2}), "class 2 is not between -1 and 1"},
      {kind, bytes(std::int32_t{-2}), "class -2 is not between -1 and 1"},
      {note, bytes('a', 'b', 'c'), "3 bytes, but a batch has room for 2 bytes"},
      {mask, bytes(1.0F), "not an image"},
      {mask, png_of(2, 2, {1, 2, 3, 4}, true), "a mask of 2x2 pixels for an image of 4x4"},
      {boxes, bytes(1.0F), "4 bytes are no whole number of boxes"},
      {boxes, bytes(LabelledBox{0, 0, nan, 1, 0}), "is not finite"},
      {boxes, bytes(LabelledBox{2, 0, 2, 1, 0}), "has no area"},
      {boxes, bytes(LabelledBox{5, 5, 6, 6, 0}), "lies outside the image 4x4"},
      {boxes, bytes(LabelledBox{0, 0, 1, 1, 7}), "class 7 is not between -1 and 1"},
      {boxes, bytes(LabelledBox{0, 0, 1, 1, 0}, LabelledBox{0, 0, 1, 1, 0}), "2 boxes, but a batch has room for 1"},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.problem);
    auto dataset = std::make_shared<FieldDataset>(8, std::vector{bad.field});
    dataset->replace_field = [&](std::uint64_t /*id*/, const Field& /*field*/, Bytes& given) {
      given = bad.bytes;
      return true;
    };
    Options options = memory_options(4);
    options.on_bad = OnBad::fail;
    const std::string error = error_of([&] { Feeder feeder = feeder_of(options, dataset); });
    CAPTURE(error);
    CHECK(contains(error, "field \"" + bad.field.name + "\" (memory/"));
    CHECK(contains(error, bad.problem));
  }
}

TEST_CASE("an array may be an npy file, of another type that fits") {
  const Field depth{.name = "depth", .kind = FieldKind::array, .dtype = DType::float32, .shape = {2, 1}};
  auto dataset = std::make_shared<FieldDataset>(4, std::vector{depth});
  dataset->replace_field = [](std::uint64_t id, const Field& /*field*/, Bytes& bytes) {
    Bytes elements;
    const auto number = static_cast<std::int16_t>(id);
    FieldDataset::add(elements, number);
    FieldDataset::add(elements, static_cast<std::int16_t>(-number));
    bytes = npy_of("<i2", "(2, 1)", elements);
    return true;
  };
  Feeder feeder = feeder_of(memory_options(4), dataset);
  const auto batch = feeder.next();
  REQUIRE(batch);
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const auto number = static_cast<float>(batch->ids()[i]);
    CHECK(batch->field("depth").as<float>()[2 * i] == number);
    CHECK(batch->field("depth").as<float>()[2 * i + 1] == -number);
  }
}

TEST_CASE("arrays of 16-bit floating point become others, and others become them, rounded once") {
  const auto served = [](DType dtype, const Bytes& npy) {
    const Field field{.name = "x", .kind = FieldKind::array, .dtype = dtype, .shape = {2}};
    auto dataset = std::make_shared<FieldDataset>(1, std::vector{field});
    dataset->replace_field = [&](std::uint64_t /*id*/, const Field& /*field*/, Bytes& bytes) {
      bytes = npy;
      return true;
    };
    Options options = memory_options(1);
    options.on_bad = OnBad::fail;
    Feeder feeder = feeder_of(options, dataset);
    const auto batch = feeder.next();
    REQUIRE(batch);
    const auto* const begin = batch->field("x").as<std::byte>();
    return Bytes(begin, begin + 2 * size_of(dtype));
  };
  const auto bytes = [](auto... values) {
    Bytes all;
    (FieldDataset::add(all, values), ...);
    return all;
  };
  const auto halves = npy_of("<f2", "(2,)", std::vector<std::uint16_t>{0x3e00, 0xfbff});
  CHECK(served(DType::float32, halves) == bytes(1.5F, -65504.0F));
  CHECK(served(DType::float64, halves) == bytes(1.5, -65504.0));
  CHECK(served(DType::float32, npy_of(">f2", "(2,)", std::vector<std::uint16_t>{0x003e, 0xfffb})) ==
        bytes(1.5F, -65504.0F));
  CHECK(served(DType::bfloat16, halves) == bytes(std::uint16_t{0x3fc0}, std::uint16_t{0xc780}));
  const auto floats = npy_of("<f4", "(2,)", std::vector<float>{1.0F, 2049.0F});
  CHECK(served(DType::float16, floats) == bytes(std::uint16_t{0x3c00}, std::uint16_t{0x6800}));
  CHECK(served(DType::bfloat16, floats) == bytes(std::uint16_t{0x3f80}, std::uint16_t{0x4500}));
  CHECK(served(DType::float16, npy_of("<i2", "(2,)", std::vector<std::int16_t>{-3, 2})) ==
        bytes(std::uint16_t{0xc200}, std::uint16_t{0x4000}));
  const std::string refusal = error_of([&] {
    (void)served(DType::float16, npy_of("<f4", "(2,)", std::vector<float>{1, 70000}));
  });
  CHECK(contains(refusal, "an array of float32 with 70000, which float16 does not hold"));
}

TEST_CASE("what read_field() throws or asks for is the sample's fault") {
  auto dataset = std::make_shared<FieldDataset>(40);
  std::atomic<int> transient{0};
  dataset->before_field = [&](std::uint64_t id, const Field& field) {
    if (field.name != "age") return;
    if (id == 3) throw std::runtime_error("no such member");
    if (id == 4) throw SampleError("is torn");
    if (id == 5 && transient++ == 0) throw SampleError("try again", SampleError::Kind::transient);
  };
  Options options = memory_options(4);
  Feeder feeder = feeder_of(options, dataset);
  std::set<std::uint64_t> ids;
  while (const auto batch = feeder.next()) {
    CHECK(are_right(*batch));
    ids.insert(batch->ids().begin(), batch->ids().end());
  }
  CHECK_FALSE(ids.contains(3));
  CHECK_FALSE(ids.contains(4));
  CHECK(ids.contains(5));
  CHECK(feeder.summary().bad_samples == 2);
}

TEST_CASE("many readers with room for next to nothing come through") {
  Options options = memory_options(4);
  options.workers.io = 6;
  options.run.epochs = 3;
  SUBCASE("one byte") { options.workers.bytes = 1; }
  SUBCASE("an image") { options.workers.bytes = 60; }
  SUBCASE("a sample or two") { options.workers.bytes = 300; }
  Feeder feeder = feeder_of(options, std::make_shared<FieldDataset>(60));
  std::size_t samples = 0;
  while (const auto batch = feeder.next()) {
    CHECK(are_right(*batch));
    samples += batch->size();
  }
  CHECK(samples == 180);
}

TEST_CASE("a read whose field hangs is read a second time, and the sample comes once") {
  Options options = memory_options(4);
  options.workers.io = 8;
  options.workers.hedge = Hedge::automatic;
  options.policy.watchdog_s = 120;
  Gate gate;
  std::atomic<int> notes{0};  // before that, too few reads are known to identify a slow one
  std::atomic<bool> hung{false};
  auto dataset = std::make_shared<FieldDataset>(1200);
  dataset->before_field = [&](std::uint64_t /*id*/, const Field& field) {
    if (field.name == "note" && ++notes > 800 && !hung.exchange(true)) gate.pass();
  };
  Feeder feeder = feeder_of(options, dataset);
  std::size_t samples = 0;
  std::set<std::uint64_t> ids;
  while (samples < 1200) {
    const auto batch = feeder.next();
    REQUIRE(batch.has_value());
    CHECK(are_right(*batch));
    samples += batch->size();
    ids.insert(batch->ids().begin(), batch->ids().end());
  }
  CHECK(hung);
  CHECK(ids.size() == 1200);
  CHECK(feeder.summary().hedges_won >= 1);
  gate.open();
}

TEST_CASE("fields that cannot be served are refused when the feeder is made") {
  const auto refusal = [](const std::vector<Field>& fields, When when = When::enqueue) {
    Options options = memory_options(4);
    options.transform.when = when;
    return error_of([&] { Feeder feeder = feeder_of(options, std::make_shared<FieldDataset>(8, fields)); });
  };
  const Field plain{.name = "a", .kind = FieldKind::numbers};
  const auto named = [&](std::string name) {
    Field field = plain;
    field.name = std::move(name);
    return field;
  };
  CHECK(contains(refusal({FieldDataset::boxes(3)}, When::dequeue), "set transform.when = \"enqueue\""));
  CHECK(contains(refusal({ViewedDataset::mask()}, When::dequeue), "masks in memory cannot follow"));
  CHECK(contains(refusal({named("image")}), "every batch has a field of that name"));
  CHECK(contains(refusal({named("a.b")}), "a name has letters"));
  CHECK(contains(refusal({plain, plain}), "there are two of that name"));
  CHECK(contains(refusal({{.name = "i", .kind = FieldKind::image}}), "a batch has one image"));
  CHECK(contains(refusal({{.name = "b", .kind = FieldKind::boxes}}), "how many boxes"));
  CHECK(contains(refusal({{.name = "m", .kind = FieldKind::mask}}), "kind mask is uint8, int32 or int64"));
  CHECK(contains(refusal({{.name = "t", .kind = FieldKind::multilabel, .shape = {3}, .classes = {"a", "b"}}}),
                 "its shape is the number of its classes"));
  CHECK(contains(refusal({{.name = "n", .kind = FieldKind::numbers, .shape = {3, 0}}}), "must be 1 or more"));
  CHECK(contains(refusal({{.name = "n", .kind = FieldKind::array, .shape = {1 << 20, 1 << 20, 1 << 20}}}),
                 "larger than any memory"));
}

TEST_CASE("fields are found by name and by number, and errors list them") {
  Feeder feeder = feeder_of(memory_options(4), std::make_shared<FieldDataset>(8));
  REQUIRE(feeder.fields().size() == 7);
  CHECK(feeder.fields()[0].name == "image");
  CHECK(feeder.fields()[1].name == "label");
  CHECK(feeder.fields()[2].classes == std::vector<std::string>{"a", "b", "c"});
  CHECK(contains(error_of([&] { (void)feeder.field_number("depth"); }), "it has \"image\", \"label\", \"species\""));
  const auto batch = feeder.next();
  REQUIRE(batch);
  CHECK(batch->field(0).data == batch->images().data);
  CHECK(batch->field("label").as<std::int64_t>() == batch->labels().data());
  CHECK(contains(error_of([&] { (void)batch->field("depth"); }), "no field \"depth\"; it has \"image\""));
  CHECK(contains(error_of([&] { (void)batch->field(7); }), "no field 7; it has 7"));
  CHECK(contains(error_of([&] { (void)batch->counts(2); }), "the same shape in every sample"));
  CHECK(contains(error_of([&] { (void)batch->counts(0); }), "the same shape in every sample"));
  Bytes host(batch->field("grid").bytes());
  batch->copy_to_host(batch->field("grid"), host);
  CHECK(std::memcmp(host.data(), batch->field("grid").data, host.size()) == 0);
}

// How views change masks and boxes; Lease::views(), which describes views; and files that lie next
// to images.

// A channel of a sample's pixel, red or green.
int channel(const Lease& batch, std::size_t sample, std::int64_t y, std::int64_t x, std::size_t c) {
  const TensorView images = batch.images();
  const auto at = ((static_cast<std::int64_t>(sample) * images.shape[1] + y) * images.shape[2] + x) * 3;
  return images.as<std::uint8_t>()[static_cast<std::size_t>(at) + c];
}

// Whether the sample's pixels show this view, to within about a pixel.
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
  Options options = viewed_options();
  options.transform.views = 2;
  Feeder feeder = feeder_of(options, std::make_shared<ViewedDataset>(std::vector{ViewedDataset::mask(dtype)}));
  const std::size_t number = feeder.field_number("mask");
  CHECK(number == 2);
  CHECK(feeder.fields()[number].shape == Shape{20, 28});
  std::size_t wrong = 0;
  while (const auto batch = feeder.next()) {
    const TensorView masks = batch->field(number);
    REQUIRE(masks.shape == Shape{batch->rows(), 20, 28});
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
  Options options = viewed_options();
  options.transform.views = 2;
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
    REQUIRE(boxes.shape == Shape{batch->rows(), 4, 4});
    REQUIRE(classes.shape == Shape{batch->rows(), 4});
    REQUIRE(counts.shape == Shape{batch->rows()});
    const std::vector<SampleView> views = batch->views();
    for (std::size_t i = 0; i < views.size(); ++i) {
      const Box& region = views[i].region;
      std::vector<std::array<double, 5>> expected;
      for (const LabelledBox& box : dataset->boxes) {
        // The part of the box within the image, and of that the part within the view.
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

TEST_CASE("a box ends where the border of its view begins, and what lies in the border alone is left out") {
  Options options = viewed_options();
  options.transform.crop = Crop::random;
  options.transform.size = {40, 40};
  options.transform.padding = {20};
  options.transform.mirror = 0;
  auto dataset = std::make_shared<ViewedDataset>(std::vector{FieldDataset::boxes(4)});
  dataset->box = Box{40, 40, 60, 60};
  dataset->boxes = {{62, 50, 68, 58, 0}, {50, 45, 70, 55, 1}};  // outside the sample's box, and half inside it
  Feeder feeder = feeder_of(options, dataset);
  const std::size_t number = feeder.field_number("boxes");
  std::size_t kept = 0;
  while (const auto batch = feeder.next()) {
    const std::vector<SampleView> views = batch->views();
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (batch->counts(number).as<std::int32_t>()[i] == 0) continue;
      ++kept;
      CHECK(batch->field(number + 1).as<std::int64_t>()[i * 4] == 1);
      CHECK(batch->field("boxes").as<float>()[i * 16 + 2] <= 60.0F - static_cast<float>(views[i].region.left));
    }
  }
  CHECK(kept > 0);
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
  for (const std::string name : {"cat/a", "cat/b", "dog/a", "dog/c", "dog/e"}) {
    save("photos/" + name + ".png", png_of(kWidth, kHeight, ramp(), false));
    save("masks/" + name + ".png", mask_png());
    if (name != "dog/c") testing::write_file(folder / ("notes/" + name + ".txt"), name == "dog/e" ? "" : name);
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
    CHECK(notes == std::set<std::string>{"", "cat/a", "cat/b", "dog/a"});
    CHECK(feeder.summary().bad_samples == 1);  // dog/c has none
  }
  // For images in the root, {folder} is empty, and its slash is dropped.
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

}  // namespace
}  // namespace forebay::test_fields
