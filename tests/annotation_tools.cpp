// Datasets of annotation tools: YOLO labels with data.yaml, labelme, CVAT for images.
#include <random>

#include "data/build.hpp"
#include "data/saved_index.hpp"
#include "data/yolo_config.hpp"
#include "data/yolo_labels.hpp"
#include "detection_support.hpp"
#include "index_support.hpp"
#include "test.hpp"

namespace forebay::test_annotation_tools {

using namespace forebay::data;

namespace {

using namespace testing;
using Lines = std::vector<std::string>;

const Lines kTrain{"a.jpg -1: 1 40 15 60 35; 0 0 0 50 50;", "b.jpg -1:", "none.jpg -1:"};

// The problem of a file with this single line.
std::string problem_of(const std::string& line, const YoloRules& rules = {}) {
  return parse_yolo_labels(line + "\n", rules).problem;
}

YoloConfig config_of(const std::string& text) { return parse_yolo_config(text, "data.yaml"); }

std::string config_error(const std::string& text) {
  return error_of([&] { return config_of(text); });
}

TEST_CASE("yolo: boxes are shares of the image, and classes those of data.yaml") {
  const Yolo yolo;
  for (const char* path : {"data.yaml", "data.yaml:train", "images/train"}) {
    CAPTURE(path);
    const auto built = build_dataset(images_options(yolo.path(path)));
    const auto restored = restore_dataset(built->serialize(), "memory");
    for (const Dataset* dataset : {built.get(), restored.get()}) {
      CHECK(dataset->format() == "yolo");
      CHECK(dataset->classes() == Lines{"cat", "dog"});
      CHECK(dataset->fields()[0].classes == dataset->classes());
      CHECK(describe_boxes(*dataset) == kTrain);
      CHECK(dataset->counts().images == 3);
      CHECK(dataset->counts().annotations == 2);
      CHECK(dataset->counts().objects == 2);
      CHECK(count_bad(*dataset) == 0);
    }
    const auto has = [&](std::string_view text) {
      return std::ranges::any_of(built->skipped(), [&](const Skipped& entry) { return contains(entry.reason, text); });
    };
    CHECK(has("1 images have no file of labels"));
    CHECK(has("another part") == (std::string_view(path) != "images/train"));
  }
  CHECK(describe_boxes(*build_dataset(images_options(yolo.path("data.yaml:val")))) == Lines{"c.jpg 0: 0 0 0 100 50;"});
}

TEST_CASE("yolo: a sample of each object, its whole pixels, with the line that it stands in") {
  const Yolo yolo;
  const auto dataset = build_dataset(options_for(yolo.path("data.yaml")));
  const std::string image = yolo.path("images/train/a.jpg");
  CHECK(describe_samples(*dataset) ==
        Lines{image + "#object 1 label 1 box 40 15 60 35", image + "#object 2 label 0 box 0 0 50 50"});
}

TEST_CASE("yolo: a folder of several parts is refused with a command for each") {
  const Yolo yolo;
  const std::string message = build_error(options_for(yolo.folder.path()));
  CHECK(contains(message, "forebay index \"" + yolo.path("data.yaml:train") + "\""));
  CHECK(contains(message, "forebay index \"" + yolo.path("data.yaml:val") + "\""));
  std::filesystem::remove(yolo.folder / "data.yaml");
  const std::string without = build_error(options_for(yolo.folder.path()));
  CHECK(contains(without, "forebay index \"" + yolo.path("images/train") + "\""));
  CHECK(contains(without, "forebay index \"" + yolo.path("images/val") + "\""));
  CHECK(build_dataset(options_for(yolo.folder.path(), "yolo"))->size() == 3);

  yolo.yaml("train: images/train\nnc: 2\n");
  CHECK(build_dataset(options_for(yolo.folder.path()))->classes() == Lines{"class_0", "class_1"});
}

TEST_CASE("yolo: what data.yaml of Roboflow and of other machines say") {
  const TemporaryDirectory folder;
  write_image(folder / "train/images/a.jpg");
  write_file(folder / "train/labels/a.txt", "0 0.5 0.5 0.2 0.2\n");
  const std::string end =
      "train: ../train/images\nval: ../valid/images\n\nnc: 1\nnames: ['a']\n\nroboflow:\n"
      "  workspace: x\n  license: CC BY 4.0\n";
  write_file(folder / "data.yaml", end);
  CHECK(describe_boxes(*build_dataset(images_options(folder / "data.yaml"))) == Lines{"a.jpg 0: 0 40 20 60 30;"});
  CHECK(build_dataset(options_for(folder / "train/images"))->classes() == Lines{"a"});
  write_file(folder / "data.yaml", "path: /somewhere/else/t\ntrain: train/images\nnames: {0: a}\n");
  CHECK(build_dataset(options_for(folder / "data.yaml"))->size() == 1);
  write_file(folder / "data.yaml", "path: /somewhere/else\ntrain: train/images\nnames: {0: a}\n");
  CHECK(contains(build_error(options_for(folder / "data.yaml")), "leave \"path\" out"));
  write_file(folder / "data.yaml", "train: nowhere\nnames: [a]\n");
  CHECK(contains(build_error(options_for(folder / "data.yaml")), "there is no"));
  CHECK(contains(build_error(options_for((folder / "data.yaml").string() + ":val")), "data.yaml:train"));
}

TEST_CASE("yolo: lists of images, labels beside images, and classes of labelImg") {
  const TemporaryDirectory folder;
  for (const char* name : {"b", "a"}) {
    write_image(folder / ("photos/" + std::string(name) + ".jpg"));
    write_file(folder / ("photos/" + std::string(name) + ".txt"), "1 0.5 0.5 0.2 0.2\r\n");
  }
  write_file(folder / "photos/classes.txt", "cat\ndog\n");
  const Lines boxes{"a.jpg 1: 1 40 20 60 30;", "b.jpg 1: 1 40 20 60 30;"};
  const auto dataset = build_dataset(images_options(folder / "photos"));
  CHECK(dataset->format() == "yolo");
  CHECK(dataset->classes() == Lines{"cat", "dog"});
  CHECK(describe_boxes(*dataset) == boxes);

  write_file(folder / "train.txt", "./photos/b.jpg\nphotos/a.jpg\nphotos/a.jpg\nphotos/missing.jpg\nnotes.md\n");
  const auto listed = build_dataset(images_options(folder / "train.txt", "yolo"));
  CHECK(describe_boxes(*listed) == boxes);
  CHECK(count_bad(*listed) == 2);
  write_file(folder / "data.yaml", "train: [train.txt, photos]\nnames:\n  0: cat\n  1: dog\n");
  CHECK(describe_boxes(*build_dataset(images_options(folder / "data.yaml"))) == boxes);
}

TEST_CASE("yolo: without names, classes are numbers, or those that dataset.classes gives") {
  const Yolo yolo;
  std::filesystem::remove(yolo.folder / "data.yaml");
  DatasetOptions options = images_options(yolo.path("images/train"));
  CHECK(build_dataset(options)->classes() == Lines{"0", "1"});
  options.classes = {"x", "y", "z"};
  CHECK(describe_boxes(*build_dataset(options)) == kTrain);
  options.classes = {"x"};
  const auto bad = build_dataset(options);
  CHECK(describe_boxes(*bad) == Lines{"b.jpg -1:", "none.jpg -1:"});
  CHECK(contains(skip_reason(*bad, "labels/train/a.txt"), "line 1: the class 1 is not below 1"));

  yolo.yaml("train: images/train\nnames: [cat, dog]\n");
  options.classes = {"fly", "dog"};
  const auto chosen = build_dataset(options);
  CHECK(describe_boxes(*chosen) == Lines{"a.jpg 1: 1 40 15 60 35;", "b.jpg -1:", "none.jpg -1:"});
  CHECK(count_bad(*chosen) == 0);
  options.classes.clear();
  yolo.yaml("train: images/train\nnames: [cat, cat]\n");
  CHECK(contains(build_error(options), "both called \"cat\""));
}

TEST_CASE("yolo: an image of whose labels one is wrong is left out, and the line is named") {
  const Yolo yolo;
  yolo.add("train", "bad", "0 0.5 0.5 0.1 0.1\n\n0 0.5 0.5 1.2 0.1\n");
  yolo.add("train", "flat", "0 0.5 0.5 0.1 0.1\n0 0.5 0.5 0 0.1\n");
  yolo.add("train", "twice", "0 0.5 0.5 0.1 0.1\n0 0.50 0.5 0.1 0.1\n");
  const auto dataset = build_dataset(images_options(yolo.path("data.yaml")));
  CHECK(describe_boxes(*dataset) ==
        Lines{kTrain[0], kTrain[1], "flat.jpg 0: 0 45 22.5 55 27.5;", kTrain[2], "twice.jpg 0: 0 45 22.5 55 27.5;"});
  CHECK(count_bad(*dataset) == 2);
  CHECK(contains(skip_reason(*dataset, "bad.txt"), "line 3: 1.2 is not between 0 and 1"));
  CHECK(contains(skip_reason(*dataset, "flat.txt"), "line 2: the box has no area"));
  const auto has = [&](std::string_view text) {
    return std::ranges::any_of(dataset->skipped(), [&](const Skipped& entry) { return contains(entry.reason, text); });
  };
  CHECK(has("1 lines of labels that repeat another one"));

  DatasetOptions classes = options_for(yolo.path("data.yaml"));  // which needs no pixels
  classes.samples = SampleUnit::images;
  classes.fields = {field_options("present", FieldKind::multilabel)};
  const auto present = build_dataset(classes);
  CHECK(count_bad(*present) == 2);
  CHECK(field_elements<float>(*present, 0) == std::vector<float>{1, 1});
  CHECK(field_elements<float>(*present, 2) == std::vector<float>{1, 0});

  write_file(yolo.folder / "images/train/broken.jpg", "no image");
  write_file(yolo.folder / "labels/train/broken.txt", "0 0.5 0.5 0.1 0.1\n");
  CHECK(find_skipped(*build_dataset(images_options(yolo.path("data.yaml"))), "broken.jpg")->bad);
}

TEST_CASE("yolo: lines that cannot be labels") {
  CHECK(problem_of("0 0.5 0.5 1 1").empty());
  CHECK(problem_of("+1.0\t.5 5e-1 1.005 1").empty());
  CHECK(contains(problem_of("0 nan 0.5 1 1"), "\"nan\" is not a number"));
  CHECK(contains(problem_of("0,0.5,0.5,1,1"), "is not a number"));
  CHECK(contains(problem_of("0.5 0.5 0.5 1 1"), "no whole number"));
  CHECK(contains(problem_of("-1 0.5 0.5 1 1"), "no whole number"));
  CHECK(contains(problem_of("0 -0.1 0.5 1 1"), "is not between 0 and 1"));
  CHECK(contains(problem_of("0 320 240 100 80"), "is not between 0 and 1"));
  CHECK(contains(problem_of("0 0.5 0.5 1 1 0.9"), "confidence"));
  CHECK(contains(problem_of("0 0.5 0.5 1"), "neither"));
  CHECK(contains(problem_of("0 0.1 0.1 0.2 0.2 0.3 0.3 0.4"), "neither"));
  CHECK(contains(problem_of("2 0.5 0.5 1 1", {.classes = 2}), "not below 2"));
  CHECK(contains(problem_of("0 0.5 0.5 1 1", {.keypoint_numbers = 6}), "kpt_shape"));
  CHECK(problem_of("0 0.5 0.5 1 1 0.5 0.5 2", {.keypoint_numbers = 3}).empty());
}

TEST_CASE("yolo: polygons and turned boxes have their extent as box") {
  const YoloLabels labels = parse_yolo_labels("3 0.1 0.5 0.4 0.2 0.3 0.9\n1 0.5 0.5 0.2 0.2", {});
  REQUIRE(labels.objects.size() == 2);
  CHECK(labels.objects[0].sides == BoxSides{0.1, 0.2, 0.4, 0.9});
  CHECK(labels.objects[1].line == 2);
  CHECK(labels.has_polygons);
  CHECK_FALSE(labels.may_be_keypoints);
  CHECK(parse_yolo_labels("0 0.5 0.5 0.4 0.4 0.5 0.6 0.4 0.5\n", {}).may_be_keypoints);
}

TEST_CASE("yolo: the boxes are those of ultralytics, in any mixture of lines") {
  Random random = testing::random_from(std::random_device{}());
  for (int file = 0; file < 200; ++file) {
    std::ostringstream text;
    std::vector<std::vector<double>> wanted;  // class, centre and size, as ultralytics has them
    const int lines = static_cast<int>(random.below(6));
    for (int line = 0; line < lines; ++line) {
      std::vector<double> numbers{static_cast<double>(random.below(80))};
      const std::size_t points = random.below(2) == 0 ? 2 : 3 + random.below(5);
      for (std::size_t i = 0; i < 2 * points; ++i) numbers.push_back(static_cast<double>(random.below(1001)) / 1000);
      for (const double number : numbers)
        text << (number == numbers.front() && &number == numbers.data() ? "" : " ") << number;
      text << '\n';
      if (points > 2) {
        double low[2] = {2, 2};
        double high[2] = {-1, -1};
        for (std::size_t i = 1; i < numbers.size(); ++i) {
          low[(i - 1) % 2] = std::min(low[(i - 1) % 2], numbers[i]);
          high[(i - 1) % 2] = std::max(high[(i - 1) % 2], numbers[i]);
        }
        numbers = {numbers[0], (low[0] + high[0]) / 2, (low[1] + high[1]) / 2, high[0] - low[0], high[1] - low[1]};
      }
      if (std::ranges::find(wanted, numbers) == wanted.end()) wanted.push_back(numbers);
    }
    const YoloLabels labels = parse_yolo_labels(text.str(), {.classes = 80});
    CAPTURE(text.str());
    REQUIRE(labels.problem.empty());
    REQUIRE(labels.objects.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto& [left, top, right, bottom] = labels.objects[i].sides;
      CHECK(labels.objects[i].number == wanted[i][0]);
      CHECK((left + right) / 2 == doctest::Approx(wanted[i][1]));
      CHECK((top + bottom) / 2 == doctest::Approx(wanted[i][2]));
      CHECK(right - left == doctest::Approx(wanted[i][3]));
      CHECK(bottom - top == doctest::Approx(wanted[i][4]));
    }
  }
}

TEST_CASE("data.yaml: the forms in which it is written") {
  const YoloConfig config = config_of(
      "# comment\n---\npath: ../datasets/coco8  # root\ntrain:\n- images/a\n- 'it''s'\nval: [\"x \\\"y\\\"\", z]\n"
      "test: # none\nkpt_shape: [17, 3]\nnames:\n  0: person\n\n  # two\n  1: \"traffic light\"\n"
      "download: |\n  from x import y\n  names: [z]\nother: {a: [1,\n  2]}\n");
  CHECK(config.path == "../datasets/coco8");
  REQUIRE(config.splits.size() == 2);
  CHECK(config.splits[0].places == Lines{"images/a", "it's"});
  CHECK(config.splits[1].places == Lines{"x \"y\"", "z"});
  CHECK(config.names == Lines{"person", "traffic light"});
  CHECK(config.keypoint_numbers == 51);

  const YoloConfig folded =
      config_of("train: a\nvalidation: b\nnc: 3\nnames: ['a, b',  # one\n  \"c\",\n  d # last\n  ]\n");
  CHECK(folded.names == Lines{"a, b", "c", "d"});
  CHECK(folded.find("val")->places == Lines{"b"});
  CHECK(config_of("names: {1: b, 0: a}\r\ntrain: x\r\n").names == Lines{"a", "b"});
  CHECK(config_of("nc: 2\ntrain: x\n").names == Lines{"class_0", "class_1"});
  CHECK(config_of("train: x\nnames: ~\n").names.empty());
}

TEST_CASE("data.yaml: what it does not read is refused with its line") {
  CHECK(contains(config_error("train: a\nnames: *others\n"), "data.yaml:2: \"*others\""));
  CHECK(contains(config_error("names:\n  0: a\n  2: b\n"), "each once"));
  CHECK(contains(config_error("names:\n  0: a\n  0: b\n"), "0 again"));
  CHECK(contains(config_error("names: [a, b\ntrain: x\n"), "data.yaml:1: a bracket that is never closed"));
  CHECK(contains(config_error("nc: 3\nnames: [a, b]\n"), "data.yaml:2: 2 names, but nc = 3"));
  CHECK(contains(config_error("names:\n  - a\n   - b\n"), "data.yaml:3: is not indented"));
  CHECK(contains(config_error("names:\n\t- a\n"), "data.yaml:2"));
  CHECK(contains(config_error("train: a\ntrain: b\n"), "second time"));
  CHECK(contains(config_error("train: {a: b}\n"), "data.yaml:1"));
  CHECK(contains(config_error("train: a\n  b\n"), "continues"));
  CHECK(contains(config_error("names: 'a\n"), "quotes"));
  CHECK(contains(config_error("names: \"\\x41\"\n"), "escapes"));
  CHECK(contains(config_error("names: person\n"), "write a list"));
  CHECK(contains(config_error("nc: many\n"), "whole number"));
  CHECK(contains(config_error("just text\n"), "data.yaml:1"));
}

TEST_CASE("labelme: rectangles and polygons beside their images") {
  const TemporaryDirectory folder;
  const auto json = [&](const std::string& name, const std::string& shapes, const std::string& image) {
    write_file(folder / (name + ".json"), R"({"version":"5","flags":{},"shapes":[)" + shapes + R"(],"imagePath":")" +
                                              image + R"(","imageData":"QUJD","imageWidth":100,"imageHeight":50})");
  };
  const auto shape = [](const std::string& label, const std::string& points, const std::string& kind) {
    return R"({"label":")" + label + R"(","points":)" + points + R"(,"shape_type":")" + kind + "\"}";
  };
  write_image(folder / "a.jpg");
  write_image(folder / "b.jpg");
  write_image(folder / "c.jpg");
  json("a",
       shape("dog", "[[10.5, 20], [1, 2]]", "rectangle") + "," + shape("cat", "[[5,5],[20,6],[9,30]]", "polygon") +
           "," + shape("eye", "[[5,5],[6,6]]", "circle"),
       "a.jpg");
  json("other",
       shape("dog", "[[0, 0], [1000, 10]]", "rectangle") + "," + shape("dog", "[[3, 3]]", "rectangle") + "," +
           shape("dog", "[[200, 3], [210, 9]]", "rectangle"),
       "..\\\\t\\\\b.jpg");
  write_file(folder / "lost.json", R"({"shapes":[],"imagePath":"nowhere.jpg"})");
  write_file(folder / "broken.json", R"({"shapes":[)");

  const auto dataset = build_dataset(images_options(folder.path()));
  CHECK(dataset->format() == "labelme");
  CHECK(dataset->classes() == Lines{"cat", "dog"});
  CHECK(describe_boxes(*dataset) == Lines{"a.jpg -1: 1 1 2 10.5 20; 0 5 5 20 30;", "b.jpg 1: 1 0 0 1000 10;"});
  CHECK(contains(skip_reason(*dataset, "other.json#object 2"), "two or more"));
  CHECK(contains(skip_reason(*dataset, "other.json#object 3"), "lies outside its image of 100x50"));
  CHECK(contains(skip_reason(*dataset, "lost.json"), "the image is missing"));
  CHECK(contains(skip_reason(*dataset, "broken.json"), "not JSON"));
  CHECK_FALSE(find_skipped(*dataset, "c.jpg")->bad);
  CHECK(contains(skip_reason(*dataset, "/t"), "1 shapes of the kind \"circle\""));
  CHECK(build_dataset(options_for(folder.path()))->size() == 3);
}

TEST_CASE("labelme: an image that lies outside of the folder is said to be there") {
  const TemporaryDirectory folder;
  write_image(folder / "imgs/0.jpg");
  write_image(folder / "json/1.jpg");
  write_file(folder / "json/0.json", R"({"shapes":[],"imagePath":"..\\imgs\\0.jpg"})");
  write_file(folder / "json/1.json", R"({"shapes":[],"imagePath":"1.jpg"})");
  const auto dataset = build_dataset(images_options(folder / "json", "labelme"));
  CHECK(contains(skip_reason(*dataset, "0.json"), "dataset.path must be a folder that holds both"));
  CHECK(build_dataset(images_options(folder.path(), "labelme"))->size() == 2);
  std::filesystem::remove(folder / "json/1.jpg");
  CHECK(contains(build_error(options_for(folder.path())), folder.path().string() + "\" --format labelme"));
  write_file(folder / "annotations.xml", "<annotations/>");
  CHECK(contains(build_error(options_for(folder.path())), "annotations.xml"));
}

TEST_CASE("cvat: boxes, turned boxes and polygons of one file") {
  const TemporaryDirectory folder;
  write_image(folder / "images/a.jpg");
  write_image(folder / "images/sub/b.jpg");
  const auto xml = [&](const std::string& images) {
    write_file(folder / "annotations.xml",
               "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<annotations><version>1.1</version>" + images +
                   "</annotations>\n");
  };
  xml("<image id=\"0\" name=\"a.jpg\" width=\"100\" height=\"50\">"
      "<box label=\"dog\" occluded=\"0\" xtl=\"1.5\" ytl=\"2\" xbr=\"10\" ybr=\"20\" z_order=\"0\"></box>"
      "<box label=\"dog\" xtl=\"40\" ytl=\"20\" xbr=\"60\" ybr=\"30\" rotation=\"90\"/>"
      "<polygon label=\"a &amp; b\" points=\"5.0,6;20,7;9,30\"/><points label=\"eye\" points=\"1,2\"/>"
      "<box label=\"dog\" xtl=\"x\" ytl=\"20\" xbr=\"60\" ybr=\"30\"/></image>"
      "<image id=\"1\" name=\"sub/b.jpg\" width=\"100\" height=\"50\"/><image id=\"2\" name=\"gone.jpg\"/>");
  const auto dataset = build_dataset(images_options(folder / "annotations.xml"));
  CHECK(dataset->format() == "cvat");
  CHECK(dataset->classes() == Lines{"a & b", "dog"});
  CHECK(describe_boxes(*dataset) == Lines{"a.jpg -1: 1 1.5 2 10 20; 1 45 15 55 35; 0 5 6 20 30;", "b.jpg -1:"});
  CHECK(contains(skip_reason(*dataset, "#a.jpg#object 4"), "xtl \"x\" is not a number"));
  CHECK(find_skipped(*dataset, "#gone.jpg")->bad);
  CHECK(contains(skip_reason(*dataset, ".xml"), "1 shapes of the kind \"points\""));
  CHECK(build_dataset(options_for(folder / "annotations.xml"))->size() == 3);

  const auto message = [&] { return build_error(options_for(folder / "annotations.xml")); };
  xml("<track id=\"0\" label=\"dog\"/>");
  CHECK(contains(message(), "CVAT for images 1.1"));
  write_file(folder / "annotations.xml", "<!DOCTYPE a [<!ENTITY b \"c\">]><annotations>&b;</annotations>");
  CHECK(contains(message(), "DOCTYPE"));
  xml("");
  CHECK(contains(message(), "no <image>"));
}

// Saved indexes of YOLO, labelme and CVAT, and data that changed.

TEST_CASE("yolo: a saved index notices labels, images and classes that changed") {
  namespace fs = std::filesystem;
  const Yolo yolo;
  const std::string stale = "was built from other data: the ";
  const std::string eels = "path: .\ntrain: images/train\nval: images/val\nnames: [cat, eel]\n";
  const auto check = [&](const Kept& kept) {
    const fs::path a = yolo.path("labels/train/a.txt");
    const std::string changed = kept.error_after(a, [&] { change_in_place(a, "1 0.5", "0 0.5"); });
    CHECK(contains(changed, stale + "annotation " + a.string() + " has other contents"));
    CHECK(contains(kept.error_without(a), stale + "folder " + yolo.path("labels/train") + " has other"));
    for (const std::string in : {"labels/train", "images/train"}) {
      CHECK(contains(kept.error_with(yolo.path(in + "/none.txt"), "0 0.5 0.5 1 1\n"),
                     stale + "folder " + yolo.path(in) + " has other"));
    }
    write_file(yolo.path("images/train/notes.md"), "text");
    write_file(yolo.path("README.txt"), "text");
    CHECK(kept.error().empty());

    CHECK(contains(kept.error_with(yolo.path("data.yaml"), eels), "other contents of data.yaml"));
  };
  for (const char* path : {"data.yaml", "images/train"}) {
    const Kept kept(images_options(yolo.path(path)));
    check(kept);
    write_image(yolo.path("images/train/new.jpg"));
    CHECK(contains(kept.error(), yolo.path("images/train") + " has other images"));
    fs::remove(yolo.path("images/train/new.jpg"));
    fs::rename(yolo.path("images/train/b.jpg"), yolo.path("images/train/c.jpg"));
    CHECK(contains(kept.error(), yolo.path("images/train") + " has other images"));
    fs::rename(yolo.path("images/train/c.jpg"), yolo.path("images/train/b.jpg"));
    CHECK(kept.error().empty());
  }
  write_file(yolo.path("train.txt"), "./images/train/a.jpg\n./images/train/b.jpg\n./images/train/none.jpg\n");
  DatasetOptions list = images_options(yolo.path("train.txt"));
  list.format = "yolo";
  {
    const Kept kept(list);
    CHECK(contains(kept.error_with(yolo.path("data.yaml"), eels), "other contents of data.yaml"));
  }
  // A dataset whose only part is a list.
  yolo.yaml("train: train.txt\nnames: [cat, dog]\n");
  {
    const Kept kept(images_options(yolo.folder.path()));
    change_in_place(yolo.path("train.txt"), "none", "only");
    CHECK(contains(kept.error(), "other contents of data.yaml, classes.txt or a list"));
  }
}

TEST_CASE("yolo: a folder of labels that appears, and classes beside images") {
  const TemporaryDirectory folder;
  write_image(folder / "images/a.jpg");
  write_image(folder / "images/b.jpg");
  write_file(folder / "images/b.txt", "0 0.5 0.5 1 1\n");
  write_file(folder / "images/classes.txt", "cat\ndog\n");
  const Kept kept(images_options(folder / "images"));
  CHECK(contains(kept.error_with(folder / "labels/b.txt", "1 0.5 0.5 1 1\n"),
                 "the folder " + (folder / "labels").string() + " has other annotations (0 then, 1 now)"));
  std::filesystem::remove_all(folder / "labels");
  change_in_place(folder / "images/classes.txt", "dog", "eel");
  CHECK(contains(kept.error(), "other contents of data.yaml, classes.txt or a list"));
}

TEST_CASE("yolo: a copy of the data is as good as the data") {
  const Yolo yolo;
  const Kept kept(images_options(yolo.path("data.yaml")));
  const TemporaryDirectory elsewhere;
  std::filesystem::copy(yolo.folder.path(), elsewhere / "copy", std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(yolo.path("labels"));
  CHECK(contains(kept.error(), "the folder " + yolo.path("labels/train") + " is gone"));
  std::filesystem::remove_all(yolo.path("images"));
  std::filesystem::copy(elsewhere / "copy", yolo.folder.path(),
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const auto opened = open_with_remark(kept.options, {});
  CHECK(contains(opened.remark.text, "compared 2 folders and 2 annotations in "));
}

TEST_CASE("labelme: a saved index notices files that changed, came and went") {
  const TemporaryDirectory folder;
  const auto json = [&](const std::string& name) {
    write_file(folder / (name + ".json"), R"({"shapes":[{"label":"dog","points":[[1,2],[9,8]],)"
                                          R"("shape_type":"rectangle"}],"imagePath":")" +
                                              name + R"(.jpg"})");
  };
  for (const char* name : {"a", "sub/b", "c"}) write_image(folder / (std::string(name) + ".jpg"));
  json("a");
  json("sub/b");
  const Kept kept(images_options(folder.path()));
  const std::string stale = "was built from other data: the ";
  const auto b = folder / "sub/b.json";
  CHECK(contains(kept.error_after(b, [&] { change_in_place(b, "dog", "eel"); }),
                 stale + "annotation " + b.string() + " has other contents"));
  CHECK(contains(kept.error_after(folder / "c.json", [&] { json("c"); }),
                 stale + "folder " + folder.path().string() + " has other"));
  std::filesystem::remove(folder / "sub/b.jpg");
  CHECK(contains(kept.error(), stale + "folder " + (folder / "sub").string() + " has other"));
  write_image(folder / "sub/b.jpg");
  write_file(folder / "sub/notes.txt", "text");
  CHECK(kept.error().empty());
}

TEST_CASE("cvat: a saved index notices that its file changed") {
  const TemporaryDirectory folder;
  write_image(folder / "images/a.jpg");
  write_file(folder / "annotations.xml",
             "<?xml version=\"1.0\"?><annotations><image name=\"a.jpg\" width=\"100\" height=\"50\">"
             "<box label=\"dog\" xtl=\"1\" ytl=\"2\" xbr=\"10\" ybr=\"20\"/></image></annotations>");
  const Kept kept(images_options(folder / "annotations.xml"));
  change_in_place(folder / "annotations.xml", "dog", "eel");
  CHECK(contains(kept.error(), "other contents of the file"));
}

}  // namespace
}  // namespace forebay::test_annotation_tools
