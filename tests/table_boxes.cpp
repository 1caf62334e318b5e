// Tables with a row for each box: the rows of an image are one sample.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "detection_support.hpp"
#include "support.hpp"

using namespace forebay;
using namespace forebay::testing;

namespace {

using Lines = std::vector<std::string>;

struct Table {
  TemporaryDirectory folder;
  DatasetOptions options;

  explicit Table(const std::string& text, const std::string& from = "") {
    write_file(folder / "boxes.csv", text);
    options = images_options(folder / "boxes.csv");
    options.fields[0].from = from;
  }
  [[nodiscard]] std::unique_ptr<Dataset> build() const { return build_dataset(options); }
  [[nodiscard]] std::string error() const {
    return error_of([&] { (void)build(); });
  }
};

}  // namespace

TEST_CASE("the rows of an image are one sample, in the order in which images first appear") {
  const Table table(
      "filename,width,height,class,xmin,ymin,xmax,ymax\n"
      "b.jpg,90,80,dog,1,2,30.5,40\n"
      "a.jpg,90,80,cat,5,6,7,8\n"
      "c.jpg,90,80,,,,,\n"
      "b.jpg,90,80,cat,0,0,9,9\n"
      "a.jpg,90,80,cat,-1,-1,1,1\n");
  const auto built = table.build();
  const auto restored = restore_dataset(built->serialize(), "memory");
  for (const Dataset* dataset : {built.get(), restored.get()}) {
    CHECK(dataset->format() == "table");
    CHECK(dataset->classes() == Lines{"cat", "dog"});
    CHECK(dataset->fields()[0].classes == Lines{"cat", "dog"});
    CHECK(describe_boxes(*dataset) ==
          Lines{"b.jpg -1: 1 1 2 30.5 40; 0 0 0 9 9;", "a.jpg 0: 0 5 6 7 8; 0 -1 -1 1 1;", "c.jpg -1:"});
    CHECK(dataset->counts().images == 3);
    CHECK(dataset->counts().objects == 5);
    CHECK(dataset->skipped().empty());
  }
}

TEST_CASE("columns have any names, a side may be a sum, and classes a list of their own") {
  Table table("Image Index,Finding Label,Bbox [x,y,w,h],,,\na.png,Mass,1,2,3.5,4\n\"b.png\",Edema,5,6,7,8,\n",
              "Bbox [x, y, Bbox [x + w, y+h], Finding Label");
  table.options.fields[0].classes = {"Mass", "Edema"};
  const auto dataset = table.build();
  CHECK(dataset->classes().empty());
  CHECK(dataset->fields()[0].classes == Lines{"Mass", "Edema"});
  CHECK(describe_boxes(*dataset) == Lines{"a.png -1: 0 1 2 4.5 6;", "b.png -1: 1 5 6 12 14;"});

  Table plain("image,x,y,a+b,c\ni.jpg,1,2,3,4\n", "x, y, a+b, c");
  CHECK(describe_boxes(*plain.build()) == Lines{"i.jpg -1: -1 1 2 3 4;"});
  Table given("image,label,xmin,ymin,xmax,ymax\ni.jpg,ant,1,2,3,4\ni.jpg,bee,1,2,3,4\n");
  given.options.classes = {"fly", "bee"};
  CHECK(describe_boxes(*given.build()) == Lines{"i.jpg 1: 1 1 2 3 4;"});
}

TEST_CASE("a bad box is left out by its line, and its image stays") {
  const Table table(
      "image,xmin,ymin,xmax,ymax,class,age\n"
      "a.jpg,5,6,5,8,cat,1\n"
      "a.jpg,5,6,7,8,cat,2\n"
      "b.jpg,1,,3,4,cat,3\n"
      "c.jpg,1,nan,3,4,cat,4\n"
      "d.jpg,1,2,3e10,4,cat,5\n"
      "e.jpg,-5,2,0,4,cat,6\n"
      "f.jpg,1,2,3,4,cat,old\n"
      "f.jpg,1,2,3,4,cat,7,8\n"
      "f.jpg,1,2,3,4,cat\n");
  DatasetOptions options = table.options;
  options.fields.push_back(field_options("age", FieldKind::numbers));
  const auto dataset = build_dataset(options);
  CHECK(describe_boxes(*dataset) == Lines{"a.jpg 0: 0 5 6 7 8;", "b.jpg 0:", "c.jpg 0:", "d.jpg 0:", "e.jpg 0:"});
  CHECK(field_elements<float>(*dataset, 0, 1) == std::vector<float>{1});
  const auto reason = [&](int line) { return find_skipped(*dataset, ".csv:" + std::to_string(line))->reason; };
  CHECK(reason(2) == "field \"boxes\": the box has no area");
  CHECK(reason(4) == "field \"boxes\": \"\" is no finite number");
  CHECK(reason(5) == "field \"boxes\": \"nan\" is no finite number");
  CHECK(reason(6) == "field \"boxes\": the box is beyond any image");
  CHECK(reason(7) == "field \"boxes\": the box lies outside its image");
  CHECK(contains(reason(8), "field \"age\": \"old\""));
  CHECK(reason(9) == "8 fields, but the header has 7");
  CHECK(reason(10) == "6 fields, but the header has 7");
}

TEST_CASE("a row that is left out leaves no class of its box behind") {
  const Table table(
      "image,xmin,ymin,xmax,ymax,class,age\n"
      "a.jpg,5,6,7,8,ant,old\n"
      "a.jpg,5,6,7,8,cat,2\n"
      "a.jpg,1,2,3,4,dog,2\n");
  DatasetOptions options = table.options;
  options.fields.push_back(field_options("age", FieldKind::numbers));
  const auto dataset = build_dataset(options);
  CHECK(dataset->fields()[0].classes == Lines{"cat", "dog"});
  CHECK(describe_boxes(*dataset) == Lines{"a.jpg -1: 0 5 6 7 8; 1 1 2 3 4;"});
}

TEST_CASE("columns that are not there, or too few of them, are refused with the key") {
  const std::string text = "image,xmin,ymin,xmax,ymax\ni.jpg,1,2,3,4\n";
  CHECK(
      contains(Table(text, "xmin, ymin, xmax").error(), "fields.boxes.from = \"xmin, ymin, xmax\": name the columns"));
  CHECK(contains(Table(text, "xmin, ymin, w, ymax").error(), "fields.boxes.from = \"w\": the table "));
  CHECK(contains(Table(text, "xmin, ymin, xmin + w, ymax").error(), "fields.boxes.from = \"w\": the table "));
  CHECK(contains(Table("image,x\ni.jpg,1\n").error(), "fields.boxes.from = \"xmin\": the table "));
  CHECK(contains(Table("image,xmin,ymin,xmax,ymax\n").error(), "the table has 0 rows below its header"));
}

TEST_CASE("real tables of boxes") {
  const auto data = real_data();
  if (!data) {
    MESSAGE("skipped: no real data (FOREBAY_DATA)");
    return;
  }
  const auto boxes_in = [](const Dataset& dataset) {
    std::size_t boxes = 0;
    for (std::uint64_t id = 0; id < dataset.size(); ++id) boxes += field_elements<LabelledBox>(dataset, id).size();
    return boxes;
  };
  DatasetOptions xray = images_options(*data / "xray/BBox_List_2017.csv");
  xray.fields[0].from = "Bbox [x, y, Bbox [x + w, y + h], Finding Label";
  const auto findings = build_dataset(xray);
  CHECK(findings->size() == 880);
  CHECK(boxes_in(*findings) == 984);
  CHECK(findings->fields()[0].classes.size() == 8);
  CHECK(findings->skipped().empty());
  CHECK(field_elements<LabelledBox>(*findings, 0)[0].left == doctest::Approx(225.084745762712));
  const auto raccoons = build_dataset(images_options(*data / "voc/raccoon/data/train_labels.csv"));
  CHECK(boxes_in(*raccoons) == 173);
  CHECK(raccoons->classes() == Lines{"raccoon"});
}
