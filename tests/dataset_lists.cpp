// List files in common formats: Caffe's, ImageNet's, tables with tabs, CSV with a header; and lists
// that do not give classes.
#include "data/placed_samples.hpp"
#include "dataset_support.hpp"
#include "test.hpp"

namespace forebay::test_dataset_lists {

using namespace forebay::data;

namespace {

using namespace forebay::testing;

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
  CHECK(list.build("a.jpg,v1.5\nb.jpg,2.5\n")->classes() == Lines{"2.5", "v1.5"});  // names, although one is a number
  CHECK(contains(list.refusal("a.jpg,90\nb.jpg,16000000\n"),
                 "list.txt:2: label \"16000000\" is not between -1 and 999999"));
  CHECK(contains(list.refusal("a.jpg,1,0,1\n"), "one class per image (no sets of labels, no boxes)"));
  CHECK(contains(list.refusal("a.jpg b.jpg 0\n"), "list.txt:1: two paths in a line"));
  CHECK(contains(list.refusal("a.jpg,masks/a.png\n"), "a first line (image,mask) and give [fields.mask]"));
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

  // This holds however many values are missing. Names that are numbers, among other names, stay
  // names.
  CHECK(list.read("a.jpg,1\nb.jpg,nan\nc.jpg,NaN\nd.jpg,0\n") == Lines{"a.jpg 1", "d.jpg 0"});
  CHECK(list.build("a.jpg,1\nb.jpg,x\nc.jpg,y\n")->classes() == Lines{"1", "x", "y"});
  CHECK(contains(list.refusal("a.jpg,1\nb.jpg,2\nc.jpg,x\n"),
                 "list.txt:3: label \"x\" is no class number, as 2 of the 3"));
  CHECK(list.build("a.jpg,1\nb.jpg,2\nc.jpg,x\n", {"1", "2", "x"})->size() == 3);
  CHECK(list.build("a.jpg,1\nb.jpg,0.0\nc.jpg,x\n", {"cat", "dog"})->size() == 2);
}

TEST_CASE("a word for missing values among names is warned of, unless it is a class that was given") {
  const ListFile list;
  const auto dataset = list.build("a.jpg,owl\nb.jpg,nan\nc.jpg,cat\n");
  REQUIRE(dataset->skipped().size() == 1);
  CHECK(dataset->skipped()[0].told);
  CHECK(contains(dataset->skipped()[0].reason, "\"nan\" is served as a class"));
  CHECK(list.build("a.jpg,owl\nb.jpg,nan\n", {"nan", "owl"})->skipped().empty());
  CHECK(list.build("a.jpg,owl\nb.jpg,nanny\n")->skipped().empty());
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
  if (!data) return;
  const auto refusal = [&](const char* file) { return build_error(options_for(*data / file)); };
  CHECK(contains(refusal("xray/sample_labels.csv"),
                 "\"Emphysema|Infiltration|Pleural_Thickening|Pneumothorax\" "
                 "is a set of labels"));
  CHECK(contains(refusal("xray/nih64_labels.csv"), "Sets of labels are not supported"));
  CHECK(contains(refusal("xray/BBox_List_2017.csv"), "boxes of objects"));
  CHECK(contains(refusal("voc/raccoon/data/train_labels.csv"), "boxes of objects"));
  CHECK(contains(refusal("photos/imagenet-sample.labels.tsv"), "which column is the label"));
  const auto plain = build_dataset(options_for(*data / "odd/jpeg/dali_subsampling/image_list.txt"));
  CHECK(find_missing_files(*plain, 2, {}).files.size() == 10);  // only part of the listed set was copied
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
  // A parser that is quadratic in the number of parts would take a minute for these.
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
    CHECK_NOTHROW((void)build_error(options_for(list.folder / "one", "auto")));
  }
}

// Folders named like the parts of public datasets, and lists in ImageSets.

const std::string kDog = annotation(object("dog"));

void make(const TemporaryDirectory& folder, const std::vector<std::pair<std::string, std::string>>& files) {
  for (const auto& [path, content] : files) write_file(folder / path, content);
}

std::string refusal(const TemporaryDirectory& folder, const std::string& below = "") {
  return build_error(options_for(below.empty() ? folder.path() : folder / below));
}

// The message with which format "auto" refuses a folder with these files; "" if it accepts it.
std::string refusal_of(const std::vector<std::string>& files) {
  const TemporaryDirectory folder;
  for (const std::string& file : files) write_file(folder / file, "jpeg");
  std::string error = refusal(folder);
  // Commands in the message contain the folder's path.
  for (std::size_t at = 0; (at = error.find(folder.path().string(), at)) != std::string::npos;) {
    error.replace(at, folder.path().string().size(), "SET");
  }
  return error;
}

// The remarks that a run logs at its start.
std::vector<std::string> remarks_of(const Dataset& dataset) {
  std::vector<std::string> remarks;
  for (const Skipped& entry : dataset.skipped()) {
    if (entry.told) remarks.push_back(entry.reason);
  }
  return remarks;
}

TEST_CASE("folders that are named like the parts of public datasets are no classes") {
  struct Layout {
    std::vector<std::string> files;
    std::vector<std::string> commands;  // that the error suggests, besides the one for class folders
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
      {{"seg_train/seg_train/sea/0.jpg", "seg_train/seg_train/ice/0.jpg", "seg_pred/seg_pred/1.jpg"}, {}},  // Intel
      {{"image_train/0.jpg", "image_test/1.jpg", "image_query/2.jpg"}, {}},                                 // VeRi-776
      {{"images_train/a/0.jpg", "images_test/a/0.jpg"}, {}},
      {{"trainset/a/0.jpg", "testset/a/0.jpg"}, {}},
      {{"train/1/0.png", "extra/1/0.png"}, {}},
      {{"labeled/a/0.jpg", "unlabeled/0.jpg"}, {}},
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
  const FolderOf folder{{"train/0.jpg", "jpeg"}, {"test/0.jpg", "jpeg"}};
  CHECK(build_dataset(options_for(folder.path(), "folder"))->classes() == std::vector<std::string>{"test", "train"});
}

TEST_CASE("folders that hold no data of the set are no classes, and a run says so") {
  const FolderOf folder{{"cat/0.jpg", "jpeg"},
                        {"dog/0.jpg", "jpeg"},
                        {"dog/@eaDir/0.jpg/thumb.jpg", "jpeg"},
                        {"__MACOSX/dog/0.jpg", "jpeg"},
                        {".ipynb_checkpoints/a.jpg", "jpeg"},
                        {"meta/readme.txt", "text"}};
  std::filesystem::create_directory(folder / "eel");
  for (const char* format : {"auto", "folder"}) {
    const auto dataset = build_dataset(options_for(folder.path(), format));
    CHECK(dataset->size() == 2);
    CHECK(dataset->classes() == std::vector<std::string>{"cat", "dog", "eel"});
    CHECK(contains(skip_reason(*dataset, "__MACOSX"), "macOS"));
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
  const FolderOf folder{{"101_ObjectCategories/ant/0.jpg", "jpeg"}, {"101_ObjectCategories/bee/0.jpg", "jpeg"}};
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
  CHECK(contains(skip_reason(*test, "test.txt:2"), "no image JPEGImages/000009.jpg"));

  CHECK(contains(refusal(folder, "ImageSets/Main/dog_train.txt"), "whether it shows one class (1)"));

  const auto remarks = remarks_of(*build_dataset(options_for(folder.path())));
  REQUIRE(remarks.size() == 1);
  CHECK(contains(remarks[0],
                 "the images of all its splits (ImageSets/Main/test.txt, ImageSets/Main/train.txt, "
                 "ImageSets/Segmentation/val.txt)"));

  // With masks, and even without XML.
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
  const FolderOf folder{{"Data/CLS-LOC/train/n01/n01_0.JPEG", "jpeg"},
                        {"Data/CLS-LOC/train/n02/n02_0.JPEG", "jpeg"},
                        {"Data/CLS-LOC/val/v_1.JPEG", "jpeg"},
                        {"Annotations/CLS-LOC/val/v_1.xml", kDog},
                        {"Annotations/CLS-LOC/train/n01/n01_0.xml", kDog},
                        {"ImageSets/CLS-LOC/train_cls.txt", "n01/n01_0 1\nn02/n02_0 2\n"},
                        {"ImageSets/CLS-LOC/val.txt", "v_1 1\n"}};
  const auto val = build_dataset(options_for(folder / "ImageSets/CLS-LOC/val.txt"));
  REQUIRE(val->size() == 1);
  CHECK(val->name(0) == (folder / "Data/CLS-LOC/val/v_1.JPEG").string() + "#object 1");
  CHECK(build_dataset(options_for(folder / "ImageSets/CLS-LOC/train_cls.txt"))->size() == 1);
}

TEST_CASE("splits in folders of annotated images are said") {
  const FolderOf folder{{"train/0.jpg", "jpeg"}, {"train/0.xml", kDog}, {"valid/1.jpg", "jpeg"}, {"valid/1.xml", kDog}};
  const auto remarks = remarks_of(*build_dataset(options_for(folder.path())));
  REQUIRE(remarks.size() == 1);
  CHECK(contains(remarks[0], "the images of all its splits (train, valid)"));
}

TEST_CASE("what a field's pattern names is no image, nor a mask beside a JPEG of its name") {
  const FolderOf folder{{"x.jpg", "jpeg"}, {"x_mask.png", "png"}, {"y.png", "png"}, {"y_depth.png", "png"}};
  DatasetOptions options = options_for(folder.path(), "folder");
  options.fields = {{.name = "depth", .from = "{stem}_depth.png"}};
  options.fields[0].kind = FieldKind::image;
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 2);
  CHECK(dataset->name(1) == (folder / "y.png").string());
  CHECK(skip_reason(*dataset, "y_depth.png") == "a field of another image");
  REQUIRE(find_skipped(*dataset, "x_mask.png") != nullptr);
  CHECK_FALSE(find_skipped(*dataset, "x_mask.png")->bad);
}

}  // namespace
}  // namespace forebay::test_dataset_lists
