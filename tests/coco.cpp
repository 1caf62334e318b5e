// COCO instance files: what their lists become, where their images are, and damaged or hostile
// files.
#include <forebay/feeder.hpp>

#include "base/file_io.hpp"
#include "data/coco_file.hpp"
#include "detection_support.hpp"
#include "index_support.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::test_coco {

using namespace forebay::data;

namespace {

using namespace testing;
using Lines = std::vector<std::string>;

const std::string kCategories =
    R"("categories": [{"id": 90, "name": "zebra"}, {"supercategory": "animal", "id": 3, "name": "ant"}])";

// An annotation of category 3; `rest` replaces or adds members.
std::string annotation_json(int id, int image, const std::string& box, const std::string& rest = "") {
  return R"({"segmentation": [[1, 2.5, [3]]], "area": 5.0, "id": )" + std::to_string(id) + R"(, "image_id": )" +
         std::to_string(image) + R"(, "category_id": 3, "bbox": )" + box + rest + "}";
}

std::string coco_json(const std::string& images, const std::string& annotations,
                      const std::string& categories = kCategories) {
  return R"({"info": {"year": 2017, "images": [1]}, "annotations": [)" + annotations + R"(], "images": [)" + images +
         "], " + categories + "}";
}

const std::string kImages =
    R"({"id": 7, "width": 60, "height": 40, "file_name": "b.jpg"}, {"file_name": "a.jpg", "id": 2},
  {"id": -9000000000000000000, "file_name": "sub/c.jpg"})";
const std::string kObjects = annotation_json(1, 7, "[0.5, 1, 10.25, 20]") + "," +
                             annotation_json(2, 2, "[-3, 4, 5, 6]", R"(, "category_id": 90)") + "," +
                             annotation_json(3, 7, "[5, 5, 1e1, 10]", R"(, "iscrowd": 0, "category_id": 90.0)");

struct Coco {
  TemporaryDirectory folder;
  std::string path = (folder / "annotations/instances_train.json").string();

  explicit Coco(const std::string& json) {
    write_file(path, json);
    for (const char* name : {"b.jpg", "a.jpg", "sub/c.jpg"}) write_file(folder / ("train/" + std::string(name)), name);
  }
  [[nodiscard]] std::unique_ptr<Dataset> build() const { return build_dataset(images_options(path)); }
  [[nodiscard]] std::string error() const {
    return error_of([&] { (void)build(); });
  }
};

// The reason why a bad annotation was left out; a sound one stands next to it.
std::string reason_of(const std::string& bad, const std::string& where) {
  const Coco coco(coco_json(kImages, kObjects + "," + bad));
  const auto dataset = coco.build();
  CHECK(dataset->size() == 3);
  const Skipped* entry = find_skipped(*dataset, coco.path + "#" + where);
  REQUIRE(entry != nullptr);
  CHECK(entry->bad);
  return entry->reason;
}

TEST_CASE("coco: images with their boxes, classes dense in the order of their ids") {
  const Coco coco(coco_json(kImages, kObjects));
  const auto built = coco.build();
  const auto restored = restore_dataset(built->serialize(), "memory");
  for (const Dataset* dataset : {built.get(), restored.get()}) {
    CHECK(dataset->format() == "coco");
    CHECK(dataset->classes() == Lines{"ant", "zebra"});
    CHECK(dataset->fields()[0].classes == dataset->classes());
    CHECK(describe_boxes(*dataset) ==
          Lines{"b.jpg -1: 0 0.5 1 10.75 21; 1 5 5 15 15;", "a.jpg 1: 1 -3 4 2 10;", "c.jpg -1:"});
    CHECK(dataset->name(2) == (coco.folder / "train/sub/c.jpg").string());
    CHECK(read_sample(*dataset, 1) == "a.jpg");
    CHECK(dataset->skipped().empty());
    CHECK(dataset->counts().images == 3);
    CHECK(dataset->counts().annotations == 1);
    CHECK(dataset->counts().objects == 3);
  }
}

TEST_CASE("coco: a sample of each object is cut out, with the number of it in its image") {
  const Coco coco(coco_json(kImages, kObjects));
  const auto dataset = build_dataset(options_for(coco.path));
  const std::string folder = (coco.folder / "train").string();
  CHECK(describe_samples(*dataset) == Lines{folder + "/b.jpg#object 1 label 0 box 0 1 11 21",
                                            folder + "/b.jpg#object 2 label 1 box 5 5 15 15",
                                            folder + "/a.jpg#object 1 label 1 box 0 4 2 10"});
  CHECK(dataset->source(0) == dataset->source(1));
  CHECK(contains(skip_reason(*dataset, ".json"), "1 images without objects"));
}

TEST_CASE("coco: crowds and classes that are not wanted are left out by choice") {
  const std::string crowds = annotation_json(4, 7, "[0, 0, 50, 40]", R"(, "iscrowd": 1)") + "," +
                             annotation_json(5, 2, "[0, 0, 50, 40]", R"(, "iscrowd": true)");
  const Coco coco(coco_json(kImages, kObjects + "," + crowds));
  DatasetOptions options = images_options(coco.path);
  options.classes = {"fly", "zebra"};
  const auto dataset = build_dataset(options);
  CHECK(dataset->classes() == options.classes);
  CHECK(describe_boxes(*dataset) == Lines{"b.jpg 1: 1 5 5 15 15;", "a.jpg 1: 1 -3 4 2 10;", "c.jpg -1:"});
  CHECK(count_bad(*dataset) == 0);
  REQUIRE(dataset->skipped().size() == 2);
  CHECK(contains(dataset->skipped()[0].reason, "2 annotations of crowds (iscrowd)"));
  CHECK(
      contains(dataset->skipped()[1].reason, "1 annotations of the category \"ant\", which is not in dataset.classes"));
  options.classes = {"fly"};
  CHECK(describe_boxes(*build_dataset(options)) == Lines{"b.jpg -1:", "a.jpg -1:", "c.jpg -1:"});
}

TEST_CASE("coco: the images' folder is found, or named") {
  for (const char* place :
       {"annotations/", "annotations/images/", "annotations/train/", "train/", "images/train/", "images/", ""}) {
    CAPTURE(place);
    const TemporaryDirectory folder;
    const std::string path = (folder / "annotations/instances_train.json").string();
    write_file(path, coco_json(kImages, kObjects));
    write_file(folder / (std::string(place) + "a.jpg"), "a");
    CHECK(build_dataset(images_options(path))->name(1) == (folder / (std::string(place) + "a.jpg")).string());
  }
  const Coco coco(coco_json(kImages, kObjects));
  DatasetOptions options = images_options(coco.path);
  write_file(coco.folder / "elsewhere/a.jpg", "a");
  options.fields.push_back({.name = "image", .from = "../elsewhere"});
  CHECK(contains(build_dataset(options)->name(1), "/annotations/../elsewhere/a.jpg"));
  options.fields.back().from = (coco.folder / "elsewhere").string();
  CHECK(build_dataset(options)->name(1) == (coco.folder / "elsewhere/a.jpg").string());
  options.fields.back().from = "nowhere";
  const std::string error = build_error(options);
  CHECK(contains(error, "its images, such as b.jpg, are not in " + (coco.folder / "annotations/nowhere").string()));
  CHECK(contains(error, "[fields.image] from"));
  std::filesystem::remove_all(coco.folder / "train");
  CHECK(contains(coco.error(), "are not in " + (coco.folder / "annotations/train").string() + ", "));
}

TEST_CASE("coco: paths are taken as they stand, as those of a list") {
  const Coco coco(coco_json(R"({"id": 1, "file_name": "../out.jpg"}, {"id": 2, "file_name": "/etc/passwd"},
                               {"id": 3, "file_name": "a.jpg"})",
                            annotation_json(1, 3, "[0, 0, 1, 1]")));
  const auto dataset = coco.build();
  CHECK(dataset->name(0) == (coco.folder / "train/../out.jpg").string());
  CHECK(dataset->name(1) == "/etc/passwd");
}

TEST_CASE("coco: annotations that are no objects are named by id or place, and the others stay") {
  CHECK(reason_of(annotation_json(1, 7, "[0, 0, 1, 1]"), "annotation 1") == "another annotation has this id");
  CHECK(reason_of(annotation_json(9, 99, "[0, 0, 1, 1]"), "annotation 9") == "no image has the id 99");
  CHECK(reason_of(annotation_json(9, 7, "[0, 0, 1, 1]", R"(, "category_id": 4)"), "annotation 9") ==
        "no category has the id 4");
  CHECK(reason_of(annotation_json(9, 7, "[1, 2, -3, 4.5]"), "annotation 9") == "bbox [1, 2, -3, 4.5] has no area");
  CHECK(contains(reason_of(annotation_json(9, 7, "[1, 2, 3, 0]"), "annotation 9"), "has no area"));
  CHECK(contains(reason_of(annotation_json(9, 7, "[1e300, 2, 3, 4]"), "annotation 9"), "is beyond any image"));
  CHECK(contains(reason_of(annotation_json(9, 7, "[16777216, 2, 0.01, 4]"), "annotation 9"), "has no area"));
  CHECK(contains(reason_of(annotation_json(9, 7, "[-9, 2, 9, 4]"), "annotation 9"), "lies outside its image"));
  CHECK(reason_of(annotation_json(9, 7, "[60, 2, 9, 4]"), "annotation 9") ==
        "bbox [60, 2, 9, 4] lies outside its image of 60x40");
  CHECK(
      contains(reason_of(annotation_json(9, 7, "[1, 40.5, 9, 4]"), "annotation 9"), "lies outside its image of 60x40"));
  for (const char* crowd : {"\"1\"", "[1]", "0.5", "null"}) {
    CAPTURE(crowd);
    const std::string rest = std::string(R"(, "iscrowd": )") + crowd;
    CHECK(reason_of(annotation_json(9, 7, "[0, 0, 1, 1]", rest), "annotation 9") == "iscrowd is no whole number");
  }
  for (const char* second : {"7", "\"x\"", "null", "{}"}) {
    CAPTURE(second);
    const std::string rest = std::string(R"(, "bbox": )") + second;
    CHECK(reason_of(annotation_json(9, 7, "[0, 0, 1, 1]", rest), "annotation 9") == "bbox is no list of four numbers");
  }
  for (const char* box : {"[1, 2, 3]", "[1, 2, 3, 4, 5]", "[1, 2, 3, \"4\"]", "[1, 2, 3, null]", "[[1, 2, 3, 4]]",
                          "{\"x\": 1}", "\"1 2 3 4\"", "7", "[]"}) {
    CAPTURE(box);
    CHECK(reason_of(annotation_json(9, 7, box), "annotation 9") == "bbox is no list of four numbers");
  }
  CHECK(reason_of(R"({"id": 9, "image_id": 7, "category_id": 3})", "annotation 9") == "it has no bbox");
  CHECK(reason_of(R"({"id": 9, "category_id": 3})", "annotation 9") == "it has no image_id");
  CHECK(reason_of(R"({"id": "x", "image_id": "y"})", "annotations[3]") == "image_id is no whole number");
  CHECK(reason_of(R"({"id": "9", "image_id": "7"})", "annotation 9") == "it has no category_id");
  CHECK(reason_of(R"({"id": 9, "image_id": true})", "annotation 9") == "image_id is no whole number");
  CHECK(contains(reason_of(R"({"id": 9, "image_id": 18446744073709551615})", "annotation 9"), "does not fit into 64"));
  CHECK(reason_of(R"({"id": 9, "image_id": [7]})", "annotation 9") == "image_id is no whole number");
  CHECK(contains(reason_of(R"({"id": 9, "image_id": 1e300})", "annotation 9"), "image_id is 1e+300, which does not"));
  CHECK(contains(reason_of(annotation_json(9, 7, "[0.1, 0.2, 0.5, 0.6]"), "annotation 9"),
                 "bbox [0.1, 0.2, 0.5, 0.6] does not reach beyond 1, as if its sides were shares of the image"));
  for (const char* none : {"5", "\"x\"", "[[1]]", "null", "true"})
    CHECK(reason_of(none, "annotations[3]") == "it is no object");
}

TEST_CASE("coco: names with backslashes, and LVIS's coco_url instead of a name") {
  const Coco coco(coco_json(R"({"id": 7, "coco_url": "http://images.cocodataset.org/sub/c.jpg"},
                               {"id": 2, "file_name": "sub\\d.jpg", "coco_url": "http://x/y/e.jpg"},
                               {"id": 3, "file_name": 5, "coco_url": "http://x/y/e.jpg"}, {"id": 4, "coco_url": "a.jpg"})",
                            kObjects));
  write_file(coco.folder / "train/sub/d.jpg", "d.jpg");
  const auto dataset = coco.build();
  CHECK(describe_boxes(*dataset) ==
        Lines{"c.jpg -1: 0 0.5 1 10.75 21; 1 5 5 15 15;", "d.jpg 1: 1 -3 4 2 10;", "a.jpg -1:"});
  CHECK(skip_reason(*dataset, "#image 3") == "file_name is no text");
}

TEST_CASE("coco: images without a name, or with one or an id that another has") {
  const std::string more = R"({"id": 7, "file_name": "d.jpg"}, {"id": 8, "file_name": "a.jpg"}, {"id": 9},
    {"file_name": "x.jpg"}, {"id": 10, "file_name": ""}, {"id": 11, "file_name": "a\u0000b"}, 12,
    {"id": 13, "file_name": ["x"]})";
  const Coco coco(coco_json(kImages + "," + more, kObjects + "," + annotation_json(4, 8, "[0, 0, 1, 1]")));
  const auto dataset = coco.build();
  // Both images with id 7 are left out: the objects of that id could belong to either.
  CHECK(describe_boxes(*dataset) == Lines{"a.jpg 1: 1 -3 4 2 10;", "c.jpg -1:"});
  CHECK(dataset->counts().images == 11);
  Lines of_7;
  for (const Skipped& entry : dataset->skipped()) {
    if (entry.path.ends_with("#image 7") && entry.bad) of_7.push_back(entry.reason);
  }
  CHECK(of_7 == Lines{"another image has this id: b.jpg", "another image has this id: d.jpg"});
  const auto reason = [&](const std::string& where) { return skip_reason(*dataset, "#" + where); };
  CHECK(reason("image 8") == "another image has its file_name: a.jpg");
  CHECK(reason("image 9") == "it has no file_name");
  CHECK(reason("images[6]") == "it has no id");
  CHECK(reason("image 10") == "file_name is empty");
  CHECK(reason("image 11") == "file_name holds a NUL");
  CHECK(reason("images[9]") == "it is no object");
  CHECK(reason("image 13") == "file_name is no text");
}

TEST_CASE("coco: of categories with one name the one that has objects is the class; named, they are one") {
  const auto classes_with = [](const std::string& categories, const Lines& given = {}) {
    const Coco coco(coco_json(kImages, kObjects, "\"categories\": [" + categories + "]"));
    DatasetOptions options = images_options(coco.path);
    options.classes = given;
    const auto dataset = build_dataset(options);
    Lines lines = dataset->classes();
    lines.push_back(describe_boxes(*dataset)[1]);
    return lines;
  };
  const auto category = [](int id, const std::string& name) {
    return R"({"id": )" + std::to_string(id) + R"(, "name": ")" + name + R"(", "supercategory": "none"})";
  };
  const std::string ant = category(3, "ant");
  const std::string zebra = category(90, "zebra");
  const std::string box_of_zebra = "a.jpg 1: 1 -3 4 2 10;";
  // As Roboflow exports them: the first category is the parent of all others and has no objects.
  CHECK(classes_with(category(0, "zebra") + "," + ant + "," + zebra) == Lines{"ant", "zebra", box_of_zebra});
  CHECK(classes_with(category(0, "ant") + "," + ant + "," + zebra) == Lines{"ant", "zebra", box_of_zebra});
  CHECK(classes_with(category(0, "ant") + "," + ant + "," + zebra, {"ant", "zebra"}) ==
        Lines{"ant", "zebra", box_of_zebra});
  // If neither has objects, the last one counts, as it does where it has some: so a split has the
  // same classes.
  CHECK(classes_with(category(0, "x") + "," + ant + "," + category(5, "x") + "," + zebra) ==
        Lines{"ant", "x", "zebra", "a.jpg 2: 2 -3 4 2 10;"});
  // Both have objects, and the user declares them one class.
  CHECK(classes_with(category(3, "animal") + "," + category(90, "animal"), {"animal"}) ==
        Lines{"animal", "a.jpg 0: 0 -3 4 2 10;"});
}

TEST_CASE("coco: a file that is damaged, hostile or something else is refused with the place") {
  const std::string sound = coco_json(kImages, kObjects);
  for (std::size_t cut = 0; cut < sound.size(); cut += 7) {
    const Coco coco(sound.substr(0, cut));
    CHECK(contains(coco.error(), "dataset.path = "));
  }
  const auto refusal = [](const std::string& json) { return Coco(json).error(); };
  CHECK(contains(refusal(coco_json(kImages, annotation_json(5, 7, "[NaN, 1, 2, 3]"))), "byte "));
  CHECK(contains(refusal(coco_json(kImages, annotation_json(5, 7, "[NaN, 1, 2, 3]"))),
                 "damaged JSON, in annotation 5: "));
  CHECK(contains(refusal(coco_json(kImages, annotation_json(5, 7, "[1e999, 1, 2, 3]"))), "in annotation 5"));
  CHECK(contains(refusal(sound + "x"), "damaged JSON"));
  CHECK(
      contains(refusal(coco_json(kImages, annotation_json(5, 7, std::string(100, '[')))), "nested more than 64 deep"));
  CHECK(contains(refusal("{\"a\": " + std::string(1'000'000, '[')), "nested more than 64 deep"));
  CHECK(contains(refusal("[{\"image_id\": 1}]"), "a file of results"));
  CHECK(contains(refusal("{\"shapes\": []}"), "it has no \"images\""));
  CHECK(contains(refusal("{\"images\": []}"), "found 0 images"));
  CHECK(contains(refusal("{\"images\": 5}"), "found 0 images"));
  CHECK(contains(
      refusal(coco_json(kImages, kObjects, R"("categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}])")),
      "two categories have the id 1"));
  CHECK(contains(
      refusal(coco_json(kImages, kObjects, R"("categories": [{"id": 3, "name": "a"}, {"id": 90, "name": "a"}])")),
      "the categories 3 and 90 are both called \"a\" and both have objects"));
  CHECK(contains(refusal(coco_json(kImages, annotation_json(5, 7, "[0.1, 0.1, 0.4, 0.5]"))),
                 "none usable, the first problem: "));
  CHECK(contains(refusal(coco_json(kImages, kObjects, R"("categories": [])")),
                 "3 annotations, none usable, the first problem: "));
}

TEST_CASE("coco: any changed byte ends in an error or in elements that are what they seem") {
  const TemporaryDirectory folder;
  const std::string path = (folder / "x.json").string();
  const std::string sound = coco_json(kImages, kObjects);
  const std::string bytes("\"[]{},:0-e\\\0\xFF", 13);
  for (std::size_t i = 0; i < sound.size(); ++i) {
    std::string changed = sound;
    changed[i] = bytes[i * 7 % bytes.size()];
    write_file(path, changed);
    try {
      const CocoFile coco = read_coco(open_regular(path), [](auto, auto) {});
      for (const auto& image : coco.images) CHECK(image.path < coco.paths.size());
      for (const auto& object : coco.objects) {
        for (const double side : object.box) CHECK(std::isfinite(side));
      }
      CHECK(coco.images.size() + coco.objects.size() <= coco.all_images + coco.all_objects);
    } catch (const SampleError& error) {
      CHECK(std::string(error.what()) != "");
    }
  }
}

TEST_CASE("coco: a file of nothing but bad elements is counted, not listed") {
  std::string objects = "{}";
  for (int i = 1; i < 25'000; ++i) objects += ",{}";
  const Coco coco(coco_json(kImages, objects + "," + kObjects));
  const auto dataset = coco.build();
  CHECK(dataset->skipped().size() == 10'001);
  CHECK(contains(skip_reason(*dataset, ".json"), "and 15000 more elements that are bad"));
}

TEST_CASE("coco: a category's name is taken whole or not at all") {
  const std::string name(4097, 'x');
  const Coco coco(coco_json(kImages, kObjects,
                            R"("categories": [{"id": 3, "name": "ant"}, {"id": 90, "name": ")" + name + R"("}])"));
  const auto dataset = coco.build();
  CHECK(dataset->classes() == Lines{"ant"});
  CHECK(skip_reason(*dataset, "#category 90") == "name is longer than 4096 bytes");
  CHECK(skip_reason(*dataset, "#annotation 2") == "no category has the id 90");
}

TEST_CASE("coco: labels without classes are refused by what is missing") {
  const Coco coco(coco_json(kImages, "", R"("categories": [])"));
  DatasetOptions options = images_options(coco.path);
  CHECK(build_dataset(options)->size() == 3);
  options.fields = {field_options("objects", FieldKind::multilabel)};
  CHECK(contains(build_error(options), "fields.objects.kind: no class was found"));
}

TEST_CASE("coco: what is no mask and no box is refused by name") {
  const Coco coco(coco_json(kImages, kObjects));
  const auto refusal = [&](FieldOptions field) {
    DatasetOptions options = images_options(coco.path);
    options.fields = {std::move(field)};
    return build_error(options);
  };
  CHECK(contains(refusal(field_options("shape", FieldKind::numbers, "segmentation")), "are served as a \"mask\""));
  CHECK(contains(refusal(field_options("keypoints", FieldKind::numbers)),
                 "has no \"keypoints\"; it has \"objects\", \"segmentation\""));
  CHECK(contains(refusal({.name = "label", .from = "category_id"}), "fields.label: the class of a sample is that"));
  for (const char* name : {"b", "a", "sub/c"}) write_file(coco.folder / ("masks/" + std::string(name) + ".png"), "m");
  CHECK(refusal(field_options("mask", FieldKind::mask, "../masks/{stem}.png")).empty());
}

TEST_CASE("coco: a file that has changed makes its saved index stale") {
  const Coco coco(coco_json(kImages, kObjects));
  const Kept kept(images_options(coco.path));
  const std::string other = coco_json(kImages, annotation_json(1, 7, "[0, 0, 1, 1]"));
  CHECK(contains(kept.error_with(coco.path, other), "other contents of the file"));
}

// dataset.samples = "images": images with all of their objects, of Pascal VOC and of lists with VOC annotations.

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

TEST_CASE("voc: a sample of each image has all of its objects, one to one as objects are served alone") {
  const TemporaryDirectory folder;
  write_scenes(folder);
  const auto built = build_dataset(images_options(folder.path()));
  const auto restored = restore_dataset(built->serialize(), "memory");
  for (const Dataset* dataset : {built.get(), restored.get()}) {
    CHECK(dataset->format() == "voc");
    CHECK(dataset->classes() == Lines{"cat", "dog"});
    CHECK(describe_boxes(*dataset) == Lines{"a.jpg -1: 1 0 0 10 20; 0 2.2 3 49.5 60;", "b.jpg 1: 1 0 1 3 4; 1 4 5 7 8;",
                                            "c.jpg -1:", "d.jpg -1:", "e.jpg 0: 0 0 0 20 9;"});
    CHECK(dataset->fields()[0].classes == dataset->classes());
    CHECK(dataset->sample(0).box == std::nullopt);
    CHECK(read_sample(*dataset, 1) == "bytes of b");
    CHECK(dataset->source(0) != dataset->source(1));
  }
  CHECK(built->counts().images == 7);
  CHECK(built->counts().annotations == 5);
  CHECK(built->counts().objects == 7);
  CHECK(contains(skip_reason(*built, "d.xml#object 1"), "a box without area"));
  CHECK(contains(skip_reason(*built, "e.xml#object 1"), "xmin 40 > xmax 20"));
  CHECK(contains(skip_reason(*built, "/f.jpg"), "no annotation file"));
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
  CHECK(contains(skip_reason(*dogs, "a.xml#object 2"), "class \"cat\" is not in dataset.classes"));

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
  CHECK(describe_boxes(*dataset) == Lines{"b.jpg 1: 1 0 1 3 4; 1 4 5 7 8;", "a.jpg -1: 1 0 0 10 20; 0 2.2 3 49.5 60;"});
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
  if (!data) return;
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

}  // namespace
}  // namespace forebay::test_coco
