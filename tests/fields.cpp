// Fields of a batch beside image and label: what views make of them, what is refused, and that a sample whose field is
// bad is a bad sample. mpi_fields.cpp has the kinds that no view changes, on several ranks.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/feeder.hpp>
#include <forebay/interop.hpp>

#include "dataset_support.hpp"
#include "field_dataset.hpp"
#include "support.hpp"
#include "viewed_dataset.hpp"

namespace forebay {
namespace {

using testing::are_right;
using testing::contains;
using testing::error_of;
using testing::FieldDataset;
using testing::Gate;
using testing::memory_options;
using testing::png_of;
using testing::ViewedDataset;

using Bytes = FieldDataset::Bytes;

// An npy file, version 1.
Bytes npy_of(const std::string& descr, const std::string& shape, const Bytes& elements) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  header += '\n';
  const std::string text = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header;
  const auto from = std::as_bytes(std::span(text));
  Bytes bytes(from.begin(), from.end());
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

Feeder feeder_of(const Options& options, std::shared_ptr<const Dataset> dataset) {
  return Feeder(options, Parts{.dataset = std::move(dataset)});
}

}  // namespace

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
  const Field boxes = FieldDataset::boxes(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases{
      {age, bytes(1.0F, nan), "number 1 of 2 is not finite"},
      {age, bytes(std::numeric_limits<float>::infinity(), 1.0F), "number 0 of 2 is not finite"},
      {age, bytes(1.0F), "4 bytes, but [2] of float32 are 8 bytes"},
      {age, {}, "0 bytes, but [2] of float32 are 8 bytes"},
      {half, bytes(std::uint16_t{0x7f80}), "number 0 of 1 is not finite"},
      {grid, bytes(1.0F), "4 bytes, neither an npy file nor the 8 of its elements"},
      {grid, npy_of("<f4", "(3,)", bytes(1.0F, 2.0F, 3.0F)), "an array of shape (3,) where another one is wanted"},
      {grid, npy_of("<f4", "(2,)", bytes(1.0F, 2.0F)), "an array of float32, which int32 does not hold"},
      {grid, npy_of("<i8", "(2,)", bytes(std::int64_t{1}, std::int64_t{1} << 40)), "which int32 does not hold"},
      {grid, npy_of("<i4", "(2,)", bytes(std::int32_t{1})), ""},
      {real, npy_of("<f8", "(2,)", bytes(1.0, 1e300)), "an array of float64, which float32 does not hold"},
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
  std::atomic<int> notes{0};  // earlier, too few reads were seen to tell a slow one
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

}  // namespace forebay
