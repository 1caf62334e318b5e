#include <doctest/doctest.h>

#include <forebay/error.hpp>

#include "data/sample_files.hpp"
#include "dataset_support.hpp"
#include "support.hpp"

// The list files that people have: Caffe's, ImageNet's, tables with tabs, CSV with a header; and what is no list of
// classes.

using namespace forebay;
using namespace forebay::testing;

namespace {

using Lines = std::vector<std::string>;

struct ListFile {
  TemporaryDirectory folder;

  std::unique_ptr<Dataset> build(const std::string& content, const std::vector<std::string>& classes = {}) const {
    write_file(folder / "list.txt", content);
    DatasetOptions options = options_for(folder / "list.txt", "filelist");
    options.classes = classes;
    return build_dataset(options);
  }
  // "PATH CLASS" by sample, paths relative to the list's folder.
  Lines read(const std::string& content) const {
    const auto dataset = build(content);
    Lines lines;
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      const std::int64_t label = dataset->sample(id).label;
      lines.push_back(dataset->name(id).substr(folder.path().string().size() + 1) + " " +
                      (label < 0 ? "-" : dataset->classes()[static_cast<std::size_t>(label)]));
    }
    return lines;
  }
  std::string refusal(const std::string& content, const std::vector<std::string>& classes = {}) const {
    return error_of([&] { (void)build(content, classes); });
  }
};

}  // namespace

TEST_CASE("path, blanks, label: as Caffe and ImageNet write it") {
  const ListFile list;
  CHECK(list.read("a.jpg 0\nsub/b.JPEG   2\n") == Lines{"a.jpg 0", "sub/b.JPEG 2"});
  CHECK(list.read("a.jpg\t0\nb.jpg\t1\n") == Lines{"a.jpg 0", "b.jpg 1"});
  CHECK(list.read("my dog.jpg 0\r\nmy cat.jpg 1\r\n") == Lines{"my dog.jpg 0", "my cat.jpg 1"});
  CHECK(list.read("a.jpg dog\nb.jpg golden retriever\nc.jpg\n") ==
        Lines{"a.jpg dog", "b.jpg golden retriever", "c.jpg -"});
  CHECK(list.read("\"my 1.jpg\" 3\nb.jpg 0\n") == Lines{"my 1.jpg 3", "b.jpg 0"});
  CHECK(list.read("2008_000001 1\n2008_000002 -1\n") == Lines{"2008_000001 1", "2008_000002 -"});
  CHECK(list.read("# a comment, with a comma\na.jpg 1\n") == Lines{"a.jpg 1"});
}

TEST_CASE("blanks in names are no separators where there is no label behind them") {
  const ListFile list;
  CHECK(list.read("my dog.jpg\na.jpg copy.jpg\n") == Lines{"my dog.jpg -", "a.jpg copy.jpg -"});
  CHECK(list.read("my dog\nno 7\nname\n") == Lines{"my dog -", "no 7 -", "name -"});
  CHECK(list.read("my dog.jpg,1\n") == Lines{"my dog.jpg 1"});
}

TEST_CASE("tabs, CSV headers, quoted fields") {
  const ListFile list;
  CHECK(list.read("path\tlabel\na,b.jpg\tdog\n") == Lines{"a,b.jpg dog"});
  CHECK(list.read("path\tlabel\nmy a.jpg\tdog house\n") == Lines{"my a.jpg dog house"});
  CHECK(list.read("path,label\na.jpg,dog\n") == Lines{"a.jpg dog"});
  CHECK(list.read("\xEF\xBB\xBF\"Image Path\",\"Class\"\r\n\"a.jpg\",\"dog, hot\"\r\n") == Lines{"a.jpg dog, hot"});
  CHECK(list.read("image_id,breed\na.jpg,dog\n") == Lines{"a.jpg dog"});
  CHECK(list.read("label,filename\ndog,a.jpg\n") == Lines{"a.jpg dog"});
  CHECK(list.read("path\na.jpg\nb.jpg\n") == Lines{"a.jpg -", "b.jpg -"});
  CHECK(list.read(",path,width,label\n0,a.jpg,640,dog\n1,b.jpg,480\n") == Lines{"a.jpg dog", "b.jpg -"});
  CHECK(list.read("a.jpg,dog,,\nb.jpg,cat,,\n") == Lines{"a.jpg dog", "b.jpg cat"});
  // No header: the first field is a path.
  CHECK(list.read("path/label,0\nother/one,1\n") == Lines{"path/label 0", "other/one 1"});
}

TEST_CASE("labels that are no classes are refused, and what is supported is said") {
  const ListFile list;
  const std::string supported = "Supported is one class per image";
  for (const char* content : {"a.jpg,0.5\nb.jpg,1\n", "a.jpg 0.73\nb.jpg 1e-3\n", "path,label\na.jpg,3.1\n"}) {
    CAPTURE(content);
    CHECK(contains(list.refusal(content), "regression"));
    CHECK(contains(list.refusal(content), supported));
  }
  for (const char* content :
       {"a.jpg,dog|cat\nb.jpg,dog\n", "a.jpg,dog;cat\n", "a.jpg 1 0 1\n", "a.jpg,\"[1, 2]\"\n", "a.jpg\t0 1\n"}) {
    CAPTURE(content);
    CHECK(contains(list.refusal(content), "is a set of labels"));
    CHECK(contains(list.refusal(content), supported));
  }
  CHECK(list.build("a.jpg,dog|cat\n", {"dog|cat"})->size() == 1);
  CHECK(list.build("a.jpg,v1.5\nb.jpg,2.5\n")->classes() == Lines{"2.5", "v1.5"});  // names, one like a number
  CHECK(contains(list.refusal("a.jpg,90\nb.jpg,16000000\n"),
                 "list.txt:2: label \"16000000\" is not between -1 and 999999"));
  CHECK(contains(list.refusal("a.jpg,1,0,1\n"), "one class per image (no sets of labels, no boxes)"));
  CHECK(contains(list.refusal("a.jpg b.jpg 0\n"), "list.txt:1: two paths in a line"));
}

TEST_CASE("one odd label among class numbers is a bad row, and the others keep their numbers") {
  const ListFile list;
  std::string numbers;
  std::string reals;
  Lines expected;
  for (int i = 0; i < 12; ++i) {
    numbers += "a.jpg," + std::to_string(i) + "\n";
    reals += "a.jpg," + std::to_string(i) + ".0\n";
    expected.push_back("a.jpg " + std::to_string(i));
  }
  CHECK(list.read(reals) == expected);
  CHECK(list.read("image,label\n" + reals) == expected);
  for (const char* odd : {"-5", "1000000", "nan", "\"1,000\"", "?", "0.5", "unknown", "1|2", "99999999999999999999"}) {
    CAPTURE(odd);
    const auto dataset = list.build(numbers + "odd.jpg," + odd + "\n");
    CHECK(list.read(numbers + "odd.jpg," + odd + "\n") == expected);
    REQUIRE(dataset->skipped().size() == 1);
    CHECK(dataset->skipped()[0].bad);
    CHECK(contains(dataset->skipped()[0].path, "list.txt:13"));
  }
  expected.emplace_back("odd.jpg 3");
  for (const char* three : {"+3", "3.0", "03", "\" 3\n\""})
    CHECK(list.read(numbers + "odd.jpg," + three + "\n") == expected);
  expected.back() = "odd.jpg -";
  for (const char* none : {"-1", "-1.0", ""}) CHECK(list.read(numbers + "odd.jpg," + none + "\n") == expected);

  // However many values are missing; names that are numbers among others stay names.
  CHECK(list.read("a.jpg,1\nb.jpg,nan\nc.jpg,NaN\nd.jpg,0\n") == Lines{"a.jpg 1", "d.jpg 0"});
  CHECK(list.build("a.jpg,1\nb.jpg,x\nc.jpg,y\n")->classes() == Lines{"1", "x", "y"});
  CHECK(contains(list.refusal("a.jpg,1\nb.jpg,2\nc.jpg,x\n"),
                 "list.txt:3: label \"x\" is no class number, as 2 of the 3"));
  CHECK(list.build("a.jpg,1\nb.jpg,2\nc.jpg,x\n", {"1", "2", "x"})->size() == 3);
  CHECK(list.build("a.jpg,1\nb.jpg,0.0\nc.jpg,x\n", {"cat", "dog"})->size() == 2);
}

TEST_CASE("labels in a file of their own follow the same rule") {
  const ListFile list;
  std::string images;
  std::string labels;
  for (int i = 0; i < 12; ++i) {
    images += std::to_string(i) + ".jpg\n";
    labels += std::to_string(i) + ".0\n";
  }
  write_file(list.folder / "images.txt", images + "odd.jpg\n");
  write_file(list.folder / "labels.txt", labels + "none\n");
  DatasetOptions options = options_for(list.folder / "images.txt", "filelist");
  options.labels = (list.folder / "labels.txt").string();
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 12);
  for (std::uint64_t id = 0; id < 12; ++id) CHECK(dataset->sample(id).label == static_cast<std::int64_t>(id));
  CHECK(contains(dataset->skipped().at(0).reason, "label \"none\" is no class number"));
}

TEST_CASE("a name that begins with # is no comment where there is such a file") {
  const ListFile list;
  write_file(list.folder / "#1.jpg", "jpeg");
  CHECK(list.read("#1.jpg,cat\nx.jpg,dog\n#2.jpg,dog\n# 1.jpg,dog\n") == Lines{"#1.jpg cat", "x.jpg dog"});
  CHECK(list.read("#1.jpg 1\nx.jpg 0\n") == Lines{"#1.jpg 1", "x.jpg 0"});
  CHECK(list.read("#1.jpg\nx.jpg\n") == Lines{"#1.jpg -", "x.jpg -"});
}

TEST_CASE("a comma in the name of an image, and line breaks around a label") {
  const ListFile list;
  CHECK(list.read("p1.jpg\nu=72,336.jpg\n") == Lines{"p1.jpg -", "u=72,336.jpg -"});
  CHECK(list.read("p1.jpg 1\nu=72,336.jpg 0\n") == Lines{"p1.jpg 1", "u=72,336.jpg 0"});
  CHECK(list.read("path\nmy 7\nu,3.png\n") == Lines{"path -", "my 7 -", "u,3.png -"});
  CHECK(
      contains(list.refusal("p1.jpg,1\nu=72,336.jpg\n"), "list.txt:2: the path is \"u=72\" and the label \"336.jpg\""));
  CHECK(list.build("\"x.jpg\",dog\n\"y.jpg\",\"dog\n\"\n")->classes() == Lines{"dog"});
}

TEST_CASE("other separators than commas and tabs are named") {
  const ListFile list;
  for (const char* content : {"image;label\n0.jpg;cat\n", "0.jpg;cat\n1.jpg;dog\n", "\"id\";\"label\"\n7;cat\n"}) {
    CHECK(contains(list.refusal(content), "list.txt: its fields are separated by semicolons"));
  }
  CHECK(contains(list.refusal("0.jpg|1\n"), "separated by bars"));
}

TEST_CASE("a header with more columns must name one path and one label") {
  const ListFile list;
  CHECK(
      contains(list.refusal("file\twnid\tclass_index\tname\na.jpg\tn01\t0\ttench\n"),
               "list.txt:1: the columns are \"file\", \"wnid\", \"class_index\", \"name\": which column is the label"));
  CHECK(contains(list.refusal("image,Edema,Mass,Hernia\na.jpg,0,1,0\n"), "Sets of labels are not supported"));
  CHECK(contains(list.refusal("filename,width,height,class,xmin,ymin,xmax,ymax\na.jpg,650,417,dog,1,2,3,4\n"),
                 "boxes of objects"));
}

TEST_CASE("tables of other people") {
  const auto data = real_data();
  if (!data) {
    MESSAGE("skipped: no real data (FOREBAY_DATA)");
    return;
  }
  const auto refusal = [&](const char* file) {
    return error_of([&] { (void)build_dataset(options_for(*data / file)); });
  };
  CHECK(contains(refusal("xray/sample_labels.csv"),
                 "\"Emphysema|Infiltration|Pleural_Thickening|Pneumothorax\" "
                 "is a set of labels"));
  CHECK(contains(refusal("xray/nih64_labels.csv"), "Sets of labels are not supported"));
  CHECK(contains(refusal("xray/BBox_List_2017.csv"), "boxes of objects"));
  CHECK(contains(refusal("voc/raccoon/data/train_labels.csv"), "boxes of objects"));
  CHECK(contains(refusal("photos/imagenet-sample.labels.tsv"), "which column is the label"));
  const auto plain = build_dataset(options_for(*data / "odd/jpeg/dali_subsampling/image_list.txt"));
  CHECK(find_missing_files(*plain, 2, {}).files.size() == 10);  // the list is longer than what was copied of the set
}

TEST_CASE("files that a list names and that are not there") {
  const ListFile list;
  write_file(list.folder / "a.jpg", "jpeg");
  write_file(list.folder / "set/JPEGImages/b.jpg", "jpeg");
  std::filesystem::create_directory(list.folder / "folder.jpg");
  const auto dataset = list.build("gone.jpg,0\na.jpg,1\nfolder.jpg,1\n");
  const MissingFiles missing = find_missing_files(*dataset, 2, {});
  REQUIRE(missing.files.size() == 2);
  CHECK(missing.files[0].path == (list.folder / "gone.jpg").string());
  CHECK(missing.files[0].reason == "cannot open: no such file");
  CHECK(missing.files[1].reason == "is a directory");
  CHECK(missing.samples.size() == 2);

  write_file(list.folder / "Annotations/c.xml", annotation(object("dog") + object("cat")));
  write_file(list.folder / "Annotations/a.xml", annotation(object("dog")));
  const MissingFiles of_objects = find_missing_files(*list.build("a.jpg\nc.jpg\n"), 2, {});
  CHECK(of_objects.files.size() == 1);
  CHECK(of_objects.samples.size() == 2);
}

TEST_CASE("a line takes time in proportion to its length, whatever is in it") {
  const ListFile list;
  constexpr std::size_t kParts = testing::kSanitized ? 20'000 : 200'000;
  const auto many = [](const std::string& part) {
    std::string line;
    for (std::size_t i = 0; i < kParts; ++i) line += part;
    return line + "\n";
  };
  // With twice the parts each took four times as long: a minute here.
  for (const char* part : {"a ", "a,", "a\t", "\"a\",", "\"a\" ", ". ", "#", "a.jpg "}) {
    CAPTURE(part);
    CHECK_NOTHROW((void)list.refusal(many(part)));
  }
}

TEST_CASE("a file of one byte is read like any other, and not beyond") {
  const ListFile list;
  for (const char* byte : {"\xff", "\xfe", "\x78", "\x1f", "P", "B", "\x89"}) {
    CAPTURE(byte);
    write_file(list.folder / "one", byte);
    CHECK_NOTHROW((void)error_of([&] { (void)build_dataset(options_for(list.folder / "one", "auto")); }));
  }
}
