#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "dataset_support.hpp"
#include "support.hpp"

// Folders whose names say that they are parts of a dataset, as those of public datasets do, and lists of ImageSets.

using namespace forebay;
using namespace forebay::testing;

namespace {

const std::string kDog = annotation(object("dog"));

void make(const TemporaryDirectory& folder, const std::vector<std::pair<std::string, std::string>>& files) {
  for (const auto& [path, content] : files) write_file(folder / path, content);
}

std::string refusal(const TemporaryDirectory& folder, const std::string& below = "") {
  return error_of([&] { (void)build_dataset(options_for(below.empty() ? folder.path() : folder / below)); });
}

// What auto says of a folder with these files; "" if it takes it.
std::string refusal_of(const std::vector<std::string>& files) {
  const TemporaryDirectory folder;
  for (const std::string& file : files) write_file(folder / file, "jpeg");
  std::string error = refusal(folder);
  // The commands name the folder.
  for (std::size_t at = 0; (at = error.find(folder.path().string(), at)) != std::string::npos;) {
    error.replace(at, folder.path().string().size(), "SET");
  }
  return error;
}

// What a run says of it when it starts.
std::vector<std::string> remarks_of(const Dataset& dataset) {
  std::vector<std::string> remarks;
  for (const Skipped& entry : dataset.skipped()) {
    if (entry.told) remarks.push_back(entry.reason);
  }
  return remarks;
}

}  // namespace

TEST_CASE("folders that are named like the parts of public datasets are no classes") {
  struct Layout {
    std::vector<std::string> files;
    std::vector<std::string> commands;  // that the error shows, beside the one for class folders all the same
  };
  const std::vector<Layout> layouts{
      {{"train/n01/0.JPEG", "train/n02/0.JPEG", "val/n01/1.JPEG", "val/n02/1.JPEG"},  // ImageNet
       {"\"SET/train\" --format folder", "\"SET/val\" --format folder"}},
      {{"train/n01/images/0.JPEG", "train/n02/images/0.JPEG", "val/images/v0.JPEG"},  // Tiny ImageNet
       {"\"SET/train\" --format folder"}},
      {{"images/pie/0.jpg", "images/ribs/0.jpg", "meta/train.txt"}, {"\"SET/images\" --format folder"}},  // Food-101
      {{"train/x.png", "trainannot/x.png", "val/y.png", "valannot/y.png"},                                // CamVid
       {"\"SET/train\" --format folder --set fields.mask.kind=mask --set "
        "\"fields.mask.from=../trainannot/{stem}.png\""}},
      {{"images/training/x.jpg", "images/validation/y.jpg", "annotations/training/x.png",
        "annotations/validation/y.png"},
       {"\"SET/images/training\" --format folder --set fields.mask.kind=mask --set "  // ADE20K
        "\"fields.mask.from=../../annotations/training/{stem}.png\""}},
      {{"leftImg8bit/train/aachen/a.png", "gtFine/train/aachen/a_color.png"},  // Cityscapes
       {"\"SET/leftImg8bit/train\" --format folder"}},
      {{"train2017/0.jpg", "val2017/1.jpg", "annotations/instances_val2017.json"},
       {"\"SET/annotations/instances_val2017.json\""}},
      {{"train/dog.0.jpg", "test1/1.jpg"}, {}},  // Dogs vs. Cats
      {{"bounding_box_train/0.jpg", "bounding_box_test/0.jpg", "query/0.jpg"}, {}},
      {{"bottle/train/good/0.png", "bottle/test/bad/0.png", "bottle/ground_truth/bad/0.png"},  // MVTec
       {"\"SET/bottle/train\" --format folder", "\"SET/bottle/test\" --format folder"}},
      {{"WIDER_train/images/0--Parade/0.jpg", "WIDER_train/images/1--Fair/0.jpg", "split/x.mat"},
       {"\"SET/WIDER_train/images\" --format folder"}},
      {{"HAM_images_part_1/0.jpg", "HAM_images_part_2/1.jpg", "meta.csv"}, {"\"SET/meta.csv\""}},
      {{"COVID/images/0.png", "COVID/masks/0.png", "Normal/images/1.png", "Normal/masks/1.png"}, {}},
      {{"Train/a/0.jpg", "TEST/a/0.jpg"}, {}},
      {{"train_images/0.jpg", "test_images/0.jpg"}, {}},
      {{"fold1/0.jpg", "fold2/0.jpg"}, {}},
      {{"images/0.jpg", "train.csv"}, {"\"SET/train.csv\""}},
  };
  for (const Layout& layout : layouts) {
    CAPTURE(layout.files.front());
    const std::string error = refusal_of(layout.files);
    CAPTURE(error);
    CHECK(contains(error, "are named like the parts of a dataset"));
    CHECK(contains(error, "forebay index \"SET\" --format folder"));
    for (const std::string& command : layout.commands) CHECK(contains(error, "forebay index " + command));
  }
}

TEST_CASE("classes that happen to be called like a part of a dataset are classes") {
  std::vector<std::string> many{"test/0.jpg", "train/0.jpg"};
  for (int i = 0; i < 98; ++i) many.push_back("class" + std::to_string(i) + "/0.jpg");
  CHECK(refusal_of(many).empty());
  CHECK(refusal_of({"with_mask/0.jpg", "without_mask/0.jpg", "mask_weared_incorrect/0.jpg"}).empty());
  CHECK(refusal_of({"mask/0.jpg", "no_mask/0.jpg"}).empty());
  CHECK(refusal_of({"freight_train/0.jpg", "passenger_train/0.jpg"}).empty());
  CHECK(refusal_of({"train/0.jpg", "bus/0.jpg", "car/0.jpg"}).empty());
  CHECK(refusal_of({"n01/images/0.jpg", "n02/images/0.jpg"}).empty());
  CHECK(refusal_of({"0/0.jpg", "1/0.jpg"}).empty());
  const TemporaryDirectory folder;
  make(folder, {{"train/0.jpg", "jpeg"}, {"test/0.jpg", "jpeg"}});
  CHECK(build_dataset(options_for(folder.path(), "folder"))->classes() == std::vector<std::string>{"test", "train"});
}

TEST_CASE("folders that hold no data of the set are no classes, and a run says so") {
  const TemporaryDirectory folder;
  make(folder, {{"cat/0.jpg", "jpeg"},
                {"dog/0.jpg", "jpeg"},
                {"dog/@eaDir/0.jpg/thumb.jpg", "jpeg"},
                {"__MACOSX/dog/0.jpg", "jpeg"},
                {".ipynb_checkpoints/a.jpg", "jpeg"},
                {"meta/readme.txt", "text"}});
  std::filesystem::create_directory(folder / "eel");
  for (const char* format : {"auto", "folder"}) {
    const auto dataset = build_dataset(options_for(folder.path(), format));
    CHECK(dataset->size() == 2);
    CHECK(dataset->classes() == std::vector<std::string>{"cat", "dog", "eel"});
    REQUIRE(find_skipped(*dataset, "__MACOSX") != nullptr);
    CHECK(contains(find_skipped(*dataset, "__MACOSX")->reason, "macOS"));
    const auto remarks = remarks_of(*dataset);
    REQUIRE(remarks.size() == 2);
    CHECK(contains(remarks[0], "no class, because it has files and no images: \"meta\""));
    CHECK(contains(remarks[1], "a class without images: \"eel\""));
  }
  DatasetOptions options = options_for(folder.path());
  options.classes = {"dog", "meta", "cat"};
  CHECK(labels_of(*build_dataset(options)) == std::vector<std::int64_t>{2, 0});
  CHECK(remarks_of(*build_dataset(options)).empty());
}

TEST_CASE("one class of everything is said") {
  const TemporaryDirectory folder;
  make(folder, {{"101_ObjectCategories/ant/0.jpg", "jpeg"}, {"101_ObjectCategories/bee/0.jpg", "jpeg"}});
  const auto remarks = remarks_of(*build_dataset(options_for(folder.path())));
  REQUIRE(remarks.size() == 1);
  CHECK(contains(remarks[0], "all images are of one class, \"101_ObjectCategories\""));
  CHECK(contains(remarks[0], "set dataset.path = \"" + (folder / "101_ObjectCategories").string() + "\""));
}

TEST_CASE("a list of ImageSets is a dataset, and the folder says which there are") {
  const TemporaryDirectory folder;
  for (const char* name : {"000000", "000001", "000004"}) {
    make(folder, {{std::string("JPEGImages/") + name + ".jpg", "jpeg"},
                  {std::string("Annotations/") + name + ".xml", kDog},
                  {std::string("SegmentationClass/") + name + ".png", "png"}});
  }
  make(folder, {{"ImageSets/Main/train.txt", "000000\n000001\n"},
                {"ImageSets/Main/test.txt", "000004\n000009\n"},
                {"ImageSets/Main/dog_train.txt", "000000 -1\n000001  1\n"},
                {"ImageSets/Segmentation/val.txt", "000001\n"}});
  const auto train = build_dataset(options_for(folder / "ImageSets/Main/train.txt"));
  CHECK(train->size() == 2);
  CHECK(train->name(1) == (folder / "JPEGImages/000001.jpg").string() + "#object 1");
  CHECK(train->classes() == std::vector<std::string>{"dog"});

  const auto test = build_dataset(options_for(folder / "ImageSets/Main/test.txt"));
  CHECK(test->size() == 1);
  REQUIRE(find_skipped(*test, "test.txt:2") != nullptr);
  CHECK(contains(find_skipped(*test, "test.txt:2")->reason, "no image JPEGImages/000009.jpg"));

  CHECK(contains(refusal(folder, "ImageSets/Main/dog_train.txt"), "whether it shows one class (1)"));

  const auto remarks = remarks_of(*build_dataset(options_for(folder.path())));
  REQUIRE(remarks.size() == 1);
  CHECK(contains(remarks[0],
                 "the images of all its splits (ImageSets/Main/test.txt, ImageSets/Main/train.txt, "
                 "ImageSets/Segmentation/val.txt)"));

  // With masks, and also where there is no XML.
  DatasetOptions options = options_for(folder / "ImageSets/Segmentation/val.txt");
  options.samples = SampleUnit::images;
  options.fields = {{.name = "mask", .from = "SegmentationClass/{stem}.png"}};
  options.fields[0].kind = FieldKind::mask;
  for (int round = 0; round < 2; ++round) {
    const auto masks = build_dataset(options);
    REQUIRE(masks->size() == 1);
    CHECK(masks->name(0) == (folder / "JPEGImages/000001.jpg").string());
    CHECK(masks->field_name(0, 0) == (folder / "SegmentationClass/000001.png").string());
    std::filesystem::remove_all(folder / "Annotations");
  }
}

TEST_CASE("lists of ILSVRC name images below Data, and number their lines") {
  const TemporaryDirectory folder;
  make(folder, {{"Data/CLS-LOC/train/n01/n01_0.JPEG", "jpeg"},
                {"Data/CLS-LOC/train/n02/n02_0.JPEG", "jpeg"},
                {"Data/CLS-LOC/val/v_1.JPEG", "jpeg"},
                {"Annotations/CLS-LOC/val/v_1.xml", kDog},
                {"Annotations/CLS-LOC/train/n01/n01_0.xml", kDog},
                {"ImageSets/CLS-LOC/train_cls.txt", "n01/n01_0 1\nn02/n02_0 2\n"},
                {"ImageSets/CLS-LOC/val.txt", "v_1 1\n"}});
  const auto val = build_dataset(options_for(folder / "ImageSets/CLS-LOC/val.txt"));
  REQUIRE(val->size() == 1);
  CHECK(val->name(0) == (folder / "Data/CLS-LOC/val/v_1.JPEG").string() + "#object 1");
  CHECK(build_dataset(options_for(folder / "ImageSets/CLS-LOC/train_cls.txt"))->size() == 1);
}

TEST_CASE("splits in folders of annotated images are said") {
  const TemporaryDirectory folder;
  make(folder, {{"train/0.jpg", "jpeg"}, {"train/0.xml", kDog}, {"valid/1.jpg", "jpeg"}, {"valid/1.xml", kDog}});
  const auto remarks = remarks_of(*build_dataset(options_for(folder.path())));
  REQUIRE(remarks.size() == 1);
  CHECK(contains(remarks[0], "the images of all its splits (train, valid)"));
}

TEST_CASE("what a field's pattern names is no image, nor a mask beside a JPEG of its name") {
  const TemporaryDirectory folder;
  make(folder, {{"x.jpg", "jpeg"}, {"x_mask.png", "png"}, {"y.png", "png"}, {"y_depth.png", "png"}});
  DatasetOptions options = options_for(folder.path(), "folder");
  options.fields = {{.name = "depth", .from = "{stem}_depth.png"}};
  options.fields[0].kind = FieldKind::image;
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 2);
  CHECK(dataset->name(1) == (folder / "y.png").string());
  REQUIRE(find_skipped(*dataset, "y_depth.png") != nullptr);
  CHECK(find_skipped(*dataset, "y_depth.png")->reason == "a field of another image");
  REQUIRE(find_skipped(*dataset, "x_mask.png") != nullptr);
  CHECK_FALSE(find_skipped(*dataset, "x_mask.png")->bad);
}
