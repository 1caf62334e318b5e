// dataset.samples = "images": images with all of their objects, of Pascal VOC and of lists with VOC annotations.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "detection_support.hpp"
#include "memory_dataset.hpp"
#include "support.hpp"

using namespace forebay;
using namespace forebay::testing;

namespace {

using Lines = std::vector<std::string>;

// Images as a detector meets them: several objects, one, none, bad ones, no annotation at all.
void write_scenes(const TemporaryDirectory& folder) {
  const auto add = [&](const std::string& name, const std::string& objects) {
    write_file(folder / ("JPEGImages/" + name + ".jpg"), "bytes of " + name);
    write_file(folder / ("Annotations/" + name + ".xml"), annotation(objects));
  };
  add("a", object("dog") + object("cat", bndbox("3.2", "4", "49.5", "60"), "<difficult>1</difficult>"));
  add("b", object("dog", bndbox("1", "2", "3", "4")) + object("dog", bndbox("5", "6", "7", "8")));
  add("c", "");
  add("d", object("cat", bndbox("9", "9", "9", "12")));
  add("e", object("cat", bndbox("40", "1", "20", "9")) + object("cat", bndbox("-5", "1", "20", "9")));
  write_file(folder / "JPEGImages/f.jpg", "jpeg");
  write_file(folder / "JPEGImages/g.jpg", "jpeg");
  write_file(folder / "Annotations/g.xml", "<annotation><object>");
}

std::string build_error(const DatasetOptions& options) {
  return error_of([&] { (void)build_dataset(options); });
}

}  // namespace

TEST_CASE("voc: a sample of each image has all of its objects, one to one as objects are served alone") {
  const TemporaryDirectory folder;
  write_scenes(folder);
  const auto built = build_dataset(images_options(folder.path()));
  const auto restored = restore_dataset(built->serialize(), "memory");
  for (const Dataset* dataset : {built.get(), restored.get()}) {
    CHECK(dataset->format() == "voc");
    CHECK(dataset->classes() == Lines{"cat", "dog"});
    CHECK(describe_boxes(*dataset) == Lines{"a.jpg -1: 1 0 0 10 20; 0 2 3 50 60;", "b.jpg 1: 1 0 1 3 4; 1 4 5 7 8;",
                                            "c.jpg -1:", "d.jpg -1:", "e.jpg 0: 0 0 0 20 9;"});
    CHECK(dataset->fields()[0].classes == dataset->classes());
    CHECK(dataset->sample(0).box == std::nullopt);
    CHECK(read_sample(*dataset, 1) == "bytes of b");
    CHECK(dataset->source(0) != dataset->source(1));
  }
  CHECK(built->counts().images == 7);
  CHECK(built->counts().annotations == 5);
  CHECK(built->counts().objects == 7);
  CHECK(contains(find_skipped(*built, "d.xml#object 1")->reason, "a box without area"));
  CHECK(contains(find_skipped(*built, "e.xml#object 1")->reason, "xmin 40 > xmax 20"));
  CHECK(contains(find_skipped(*built, "/f.jpg")->reason, "no annotation file"));
  CHECK_FALSE(find_skipped(*built, "/f.jpg")->bad);
  CHECK(find_skipped(*built, "/g.xml")->bad);
  CHECK(find_skipped(*built, "/c.jpg") == nullptr);

  DatasetOptions alone = images_options(folder.path());
  alone.samples = SampleUnit::objects;
  alone.fields.clear();
  const auto objects = build_dataset(alone);
  CHECK(objects->size() == 5);
  CHECK(count_bad(*objects) == count_bad(*built));
  CHECK(objects->counts().objects == built->counts().objects);
}

TEST_CASE("voc: difficult objects, given classes and other fields mean what they do for single objects") {
  const TemporaryDirectory folder;
  write_scenes(folder);
  DatasetOptions options = images_options(folder.path());
  options.difficult = false;
  CHECK(describe_boxes(*build_dataset(options))[0] == "a.jpg 1: 1 0 0 10 20;");
  options.difficult = true;
  options.classes = {"horse", "dog"};
  const auto dogs = build_dataset(options);
  CHECK(describe_boxes(*dogs)[0] == "a.jpg 1: 1 0 0 10 20;");
  CHECK(contains(find_skipped(*dogs, "a.xml#object 2")->reason, "class \"cat\" is not in dataset.classes"));

  options.classes.clear();
  options.fields = {field_options("present", FieldKind::multilabel, "objects"), boxes_field(2, "objects"),
                    field_options("mask", FieldKind::mask, "masks/{stem}.png")};
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    write_file(folder / ("JPEGImages/masks/" + std::string(name) + ".png"), "mask");
    write_file(folder / ("masks/" + std::string(name) + ".png"), "mask");
  }
  const auto dataset = build_dataset(options);
  CHECK(dataset->fields()[0].shape == Shape{2});
  CHECK(field_elements<float>(*dataset, 0, 0) == std::vector<float>{1, 1});
  CHECK(field_elements<float>(*dataset, 1, 0) == std::vector<float>{0, 1});
  CHECK(field_elements<float>(*dataset, 2, 0) == std::vector<float>{0, 0});
  CHECK(describe_boxes(*dataset, 1)[1] == "b.jpg 1: 1 0 1 3 4; 1 4 5 7 8;");
  CHECK(field_elements<char>(*dataset, 1, 2).size() == 4);
  options.fields.clear();
  CHECK(build_dataset(options)->size() == 5);
}

TEST_CASE("what does not go together is an error that names the key") {
  const TemporaryDirectory folder;
  write_scenes(folder);
  DatasetOptions options = images_options(folder.path());
  options.samples = SampleUnit::objects;
  CHECK(contains(build_error(options), "fields.boxes.kind: each sample is one object here"));
  CHECK(contains(build_error(options), "dataset.samples = \"images\""));
  options = images_options(folder.path());
  options.fields[0].classes = {"dog"};
  CHECK(contains(build_error(options), "fields.boxes.classes: the objects have the classes of the dataset"));
  options.fields = {boxes_field(3, "bndbox")};
  CHECK(contains(build_error(options), "the format \"voc\" has no \"bndbox\"; it has \"objects\""));
  options.fields = {field_options("present", FieldKind::multilabel)};
  options.fields[0].dtype = DType::float16;
  CHECK(contains(build_error(options), "fields.present.dtype: use float32"));

  write_file(folder / "plain/x/a.jpg", "jpeg");
  CHECK(contains(build_error(images_options(folder / "plain", "folder")),
                 "dataset.samples = \"images\": the format \"folder\" has no objects of images"));
}

TEST_CASE("a saved index remembers what its samples are") {
  const TemporaryDirectory folder;
  write_scenes(folder);
  DatasetOptions options = images_options(folder.path());
  options.index = (folder / "index").string();
  const auto built = open_dataset(options);
  CHECK(describe_boxes(*open_dataset(options)) == describe_boxes(*built));
  options.samples = SampleUnit::objects;
  CHECK(contains(error_of([&] { (void)open_dataset(options); }), "was built for samples = \"images\""));
}

TEST_CASE("lists of images with VOC annotations have them too, and other lists say that they have none") {
  const TemporaryDirectory folder;
  write_scenes(folder);
  write_file(folder / "train.txt", "JPEGImages/b.jpg\nJPEGImages/a.jpg\nJPEGImages/f.jpg\n");
  const auto dataset = build_dataset(images_options(folder / "train.txt"));
  CHECK(dataset->format() == "filelist");
  CHECK(describe_boxes(*dataset) == Lines{"b.jpg 1: 1 0 1 3 4; 1 4 5 7 8;", "a.jpg -1: 1 0 0 10 20; 0 2 3 50 60;"});
  write_file(folder / "labels.txt", "JPEGImages/b.jpg 1\n");
  CHECK(contains(build_error(images_options(folder / "labels.txt")), "has labels, a class for each image"));
  write_file(folder / "bare/list.txt", "x.jpg\n");
  CHECK(contains(build_error(images_options(folder / "bare/list.txt")), "no image with a VOC annotation"));
}

TEST_CASE("boxes of VOC arrive in a batch where the view puts them; too many make a bad sample") {
  const TemporaryDirectory folder;
  const auto add = [&](const std::string& name, const std::string& objects) {
    write_file(folder / (name + ".npy"), grey_npy(40, 20, name[0]));
    write_file(folder / (name + ".xml"), annotation(objects));
  };
  add("a", object("dog", bndbox("1", "1", "10", "20")) + object("cat", bndbox("21", "11", "40", "15")));
  add("b", "");
  add("c", object("cat") + object("cat") + object("dog"));
  add("d", object("cat", bndbox("50", "1", "60", "9")));
  Options options = memory_options(2);
  options.dataset = images_options(folder.path());
  options.dataset.batch_size = 2;
  options.dataset.shuffle = false;
  options.dataset.drop_last = false;
  options.dataset.fields = {boxes_field(2)};
  options.transform.size = {40, 40};
  options.transform.mirror = 1;
  options.run.eval = true;
  options.transform.mirror = 0;
  Feeder feeder(options);
  auto batch = feeder.next();
  REQUIRE(batch);
  CHECK(batch->labels()[0] == -1);
  const std::size_t number = feeder.field_number("boxes");
  const auto* const boxes = batch->field(number).as<float>();
  const auto* const classes = batch->field("boxes.class").as<std::int64_t>();
  CHECK(std::vector<float>(boxes, boxes + 16) ==
        std::vector<float>{0, 0, 10, 40, 20, 20, 40, 30, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(std::vector<std::int64_t>(classes, classes + 4) == std::vector<std::int64_t>{1, 0, -1, -1});
  CHECK(batch->counts(number).as<std::int32_t>()[0] == 2);
  CHECK(batch->counts(number).as<std::int32_t>()[1] == 0);
  batch.reset();
  while (auto more = feeder.next()) CHECK(more->ids().empty());
  CHECK(feeder.summary().bad_samples == 2);
  feeder.close();
}

TEST_CASE("real VOC sets: every box of expat's is there, and the bad ones are named") {
  const auto data = real_data();
  if (!data) {
    MESSAGE("skipped: no real data (FOREBAY_DATA)");
    return;
  }
  const auto count = [](const Dataset& dataset) {
    std::size_t boxes = 0;
    for (std::uint64_t id = 0; id < dataset.size(); ++id) boxes += field_elements<LabelledBox>(dataset, id).size();
    return boxes;
  };
  const auto blood = build_dataset(images_options(*data / "voc/bccd"));
  CHECK(blood->size() == 364);
  CHECK(count(*blood) == 4886);
  CHECK(blood->counts().objects == 4888);
  CHECK(count_bad(*blood) == 2);
  CHECK(blood->classes() == Lines{"Platelets", "RBC", "WBC"});
  const auto cells = build_dataset(options_for(*data / "voc/bccd"));
  std::uint64_t cell = 0;
  for (std::uint64_t id = 0; id < blood->size(); ++id) {
    for (const auto& box : field_elements<LabelledBox>(*blood, id)) {
      const Sample object = cells->sample(cell);
      CHECK(cells->name(cell++).starts_with(blood->name(id) + "#object "));
      CHECK(object.label == box.label);
      CHECK(object.box == Box{.left = static_cast<std::int32_t>(box.left),
                              .top = static_cast<std::int32_t>(box.top),
                              .right = static_cast<std::int32_t>(box.right),
                              .bottom = static_cast<std::int32_t>(box.bottom)});
    }
  }
  CHECK(cell == cells->size());
  const auto raccoons = build_dataset(images_options(*data / "voc/raccoon"));
  CHECK(raccoons->size() == 200);
  CHECK(count(*raccoons) == 217);
}
