#include "dataset_support.hpp"
#include "test.hpp"

// How the formats read common layouts of files.

namespace forebay::test_dataset_files {

using namespace forebay::testing;

namespace {

// describe_samples with paths relative to the folder.
std::vector<std::string> samples_of(const Dataset& dataset, const std::filesystem::path& folder) {
  auto lines = describe_samples(dataset);
  const std::string prefix = folder.string() + "/";
  for (auto& line : lines) {
    if (line.starts_with(prefix)) line.erase(0, prefix.size());
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("voc: annotations beside images, in sibling folders, mirrored, in any case") {
  const std::array layouts{
      std::pair{"x.jpg", "x.xml"},
      std::pair{"JPEGImages/x.jpg", "Annotations/x.xml"},
      std::pair{"images/x.JPG", "annotations/x.XML"},
      std::pair{"x.jpeg", "ANNOTATIONS/x.xml"},
      std::pair{"VOCdevkit/VOC2012/JPEGImages/x.jpg", "VOCdevkit/VOC2012/Annotations/x.xml"},
      std::pair{"Data/CLS-LOC/train/n01/x.JPEG", "Annotations/CLS-LOC/train/n01/x.xml"},
      std::pair{"train/x.jpe", "annotations/train/x.xml"},
      std::pair{"a.b/x.y.jpg", "a.b/x.y.xml"},
  };
  for (const auto& [image, xml] : layouts) {
    CAPTURE(image);
    const FolderOf folder{{image, "jpeg"},
                          {xml, annotation(object("dog") + object("cat", bndbox("3", "4", "5", "6")))}};
    const auto dataset = build_dataset(options_for(folder.path()));
    CHECK(dataset->format() == "voc");
    CHECK(dataset->classes() == Lines{"cat", "dog"});
    CHECK(samples_of(*dataset, folder.path()) == Lines{std::string(image) + "#object 1 label 1 box 0 0 10 20",
                                                       std::string(image) + "#object 2 label 0 box 2 3 5 6"});
    CHECK(dataset->counts().objects == 2);
    CHECK(dataset->counts().annotations == 1);
    CHECK(dataset->skipped().empty());
  }
}

TEST_CASE("voc: the path may be the folder of images, with Annotations beside it") {
  const FolderOf folder{{"JPEGImages/x.jpg", "jpeg"}, {"Annotations/x.xml", annotation(object("dog"))}};
  for (const char* path : {"JPEGImages", "JPEGImages/", "./JPEGImages/."}) {
    CAPTURE(path);
    const auto dataset = build_dataset(options_for(folder.path().string() + "/" + path));
    CHECK(dataset->format() == "voc");
    CHECK(dataset->size() == 1);
    CHECK(read_sample(*dataset, 0) == "jpeg");
  }
}

TEST_CASE("voc: a folder beside it that has images is another dataset") {
  const FolderOf folder{{"mine/x.jpg", "jpeg"}, {"other/x.jpg", "jpeg"}, {"other/x.xml", annotation(object("dog"))}};
  const std::string path = folder.path().string() + "/mine";
  CHECK(contains(build_error(options_for(path)), "found 1 image ("));
  write_file(folder / "boxes/x.xml", annotation(object("cat")));
  CHECK(build_dataset(options_for(path))->classes() == Lines{"cat"});
}

TEST_CASE("voc: what is skipped, and whether it is damage") {
  const TemporaryDirectory folder;
  for (const char* name : {"good", "malformed", "bomb", "objects", "none", "unannotated"}) {
    write_file(folder / (std::string(name) + ".jpg"), "jpeg");
  }
  write_file(folder / "good.xml", annotation(object("dog")));
  write_file(folder / "malformed.xml", "<annotation><object>");
  write_file(folder / "bomb.xml", "<!DOCTYPE a [<!ENTITY b \"c\">]><annotation/>");
  write_file(folder / "objects.xml", annotation(object("dog", bndbox("40", "1", "20", "9")) + object("cat")));
  write_file(folder / "none.xml", annotation(""));
  write_file(folder / "orphan.xml", annotation(object("dog")));
  write_file(folder / "notes.txt", "notes");
  const auto dataset = build_dataset(options_for(folder.path(), "voc"));
  CHECK(samples_of(*dataset, folder.path()) ==
        Lines{"good.jpg#object 1 label 1 box 0 0 10 20", "objects.jpg#object 2 label 0 box 0 0 10 20"});
  CHECK(dataset->counts().images == 6);
  CHECK(dataset->counts().annotations == 4);
  CHECK(dataset->counts().objects == 4);
  CHECK(count_bad(*dataset) == 4);

  const auto reason = [&](const char* path_end, bool bad) {
    const Skipped* entry = find_skipped(*dataset, path_end);
    REQUIRE(entry != nullptr);
    CHECK(entry->bad == bad);
    return entry->reason;
  };
  CHECK(contains(reason("/malformed.xml", true), "line 1: "));
  CHECK(contains(reason("/bomb.xml", true), "DOCTYPE"));
  CHECK(reason("/objects.xml#object 1", true) == "xmin 40 > xmax 20");
  CHECK(contains(reason("/orphan.xml", true), "the image is missing: no orphan.jpg"));
  CHECK(reason("/unannotated.jpg", false) == "no annotation file");
  CHECK(reason("/none.jpg", false) == "its annotation has no <object>");
  CHECK(contains(reason("/notes.txt", false), "neither"));
}

TEST_CASE("voc: difficult objects and given classes") {
  const FolderOf folder{{"x.jpg", "jpeg"}};
  write_file(folder / "x.xml", annotation(object("dog", bndbox("1", "1", "2", "2"), "<difficult>1</difficult>") +
                                          object("cat", bndbox("1", "1", "2", "2"), "<truncated>1</truncated>")));
  DatasetOptions options = options_for(folder.path());
  CHECK(samples_of(*build_dataset(options), folder.path()) ==
        Lines{"x.jpg#object 1 label 1 box 0 0 2 2 difficult", "x.jpg#object 2 label 0 box 0 0 2 2 truncated"});

  options.difficult = false;
  const auto easy = build_dataset(options);
  CHECK(easy->size() == 1);
  CHECK(easy->classes() == Lines{"cat", "dog"});
  CHECK(count_bad(*easy) == 0);
  REQUIRE(find_skipped(*easy, "x.xml#object 1") != nullptr);

  options.difficult = true;
  options.classes = {"horse", "dog"};
  const auto given = build_dataset(options);
  CHECK(samples_of(*given, folder.path()) == Lines{"x.jpg#object 1 label 1 box 0 0 2 2 difficult"});
  CHECK(skip_reason(*given, "x.xml#object 2") == "class \"cat\" is not in dataset.classes");
}

TEST_CASE("voc: nothing usable names the first problem") {
  const FolderOf folder{{"x.jpg", "jpeg"}};
  CHECK(contains(build_error(options_for(folder.path())), "found 1 image ("));
  write_file(folder / "x.xml", annotation(object("dog", "")));
  const std::string error = build_error(options_for(folder.path()));
  CHECK(contains(error, "dataset.path = \"" + folder.path().string()));
  CHECK(contains(error, "x.xml#object 1: no <bndbox>"));
}

TEST_CASE("voc: real sets have exactly the objects of their XML files") {
  const auto data = real_data();
  if (!data) return;
  const auto raccoon = build_dataset(options_for(*data / "voc" / "raccoon"));
  CHECK(raccoon->format() == "voc");
  CHECK(raccoon->counts().images == 200);
  CHECK(raccoon->counts().objects == 217);
  CHECK(raccoon->size() == 217);
  CHECK(raccoon->classes() == Lines{"raccoon"});
  CHECK(count_bad(*raccoon) == 0);

  const auto bccd = build_dataset(options_for(*data / "voc" / "bccd"));
  CHECK(bccd->counts().images == 364);
  CHECK(bccd->counts().objects == 4888);
  CHECK(bccd->size() == 4886);
  CHECK(bccd->classes() == Lines{"Platelets", "RBC", "WBC"});
  CHECK(count_bad(*bccd) == 2);
  CHECK(build_dataset(options_for(*data / "voc" / "bccd" / "JPEGImages"))->size() == 4886);
}

TEST_CASE("filelist: class names, class numbers, no labels") {
  const TemporaryDirectory folder;
  const auto list = [&](const std::string& content) {
    write_file(folder / "list.txt", content);
    return build_dataset(options_for(folder / "list.txt"));
  };
  CHECK(samples_of(*list("a.jpg,dog\nsub/b.jpg,cat\n"), folder.path()) == Lines{"a.jpg label 1", "sub/b.jpg label 0"});
  CHECK(list("a.jpg,dog\n")->format() == "filelist");

  const auto numbered = list("a.jpg,0\nb.jpg,10\nc.jpg,2\nd.jpg,-1\ne.jpg");
  CHECK(samples_of(*numbered, folder.path()) ==
        Lines{"a.jpg label 0", "b.jpg label 10", "c.jpg label 2", "d.jpg label -1", "e.jpg label -1"});
  CHECK(numbered->classes().size() == 11);
  CHECK(numbered->classes()[10] == "10");

  CHECK(samples_of(*list("a.jpg,7\nb.jpg,x\n"), folder.path()) == Lines{"a.jpg label 0", "b.jpg label 1"});
  CHECK(samples_of(*list("a.jpg\nb.jpg\n"), folder.path()) == Lines{"a.jpg label -1", "b.jpg label -1"});
  CHECK(list("/elsewhere/a.jpg,1\n")->name(0) == "/elsewhere/a.jpg");
}

TEST_CASE("filelist: line ends, marks, comments, blanks and quotes") {
  const TemporaryDirectory folder;
  write_file(folder / "list.txt",
             "\xEF\xBB\xBF# a comment\r\n\r\n  spaced name.jpg , 1 \r\n\"with, comma.jpg\",2\r\n"
             "\"say \"\"hi\"\".jpg\",0\n\"# no comment.jpg\",0\n\"new\nline.jpg\",1\nlast.jpg,1");
  CHECK(samples_of(*build_dataset(options_for(folder / "list.txt")), folder.path()) ==
        Lines{"spaced name.jpg label 1", "with, comma.jpg label 2", "say \"hi\".jpg label 0",
              "# no comment.jpg label 0", "new\nline.jpg label 1", "last.jpg label 1"});
}

TEST_CASE("filelist: errors name the file and the line") {
  const TemporaryDirectory folder;
  const std::string file = (folder / "list.txt").string();
  const auto refusal = [&](const std::string& content, std::vector<std::string> classes = {}) {
    write_file(file, content);
    DatasetOptions options = options_for(file, "filelist");
    options.classes = std::move(classes);
    return build_error(options);
  };
  CHECK(contains(refusal("a.jpg,1\nb,c.jpg,2\n"), file + ":2: more than two fields"));
  CHECK(contains(refusal("a.jpg,1\n\n\"b.jpg,2\n"), file + ":3: a double quote is opened"));
  CHECK(contains(refusal("\"a\nb\" c.jpg,2\n"), file + ":2: text after"));
  CHECK(contains(refusal(",3\n"), file + ":1: the first field is empty"));
  CHECK(contains(refusal(std::string("a.jpg\nb\0.jpg\n", 13)), file + ":2: a NUL byte"));
  CHECK(contains(refusal("\xFF\xFE"
                         "a"),
                 file + ":1: UTF-16"));
  CHECK(contains(refusal("a.jpg,1\rb.jpg,2\r"), file + ":1: lines that end with a carriage return alone"));
  CHECK(contains(refusal("a.jpg,-2\n"), file + ":1: label \"-2\""));
  CHECK(contains(refusal("a.jpg,0\nb.jpg,5000000\n"), file + ":2: label \"5000000\""));
  CHECK(contains(refusal(""), "names 0 images"));
  CHECK(contains(refusal("# nothing\n\n"), "names 0 images"));
  CHECK(contains(refusal("a.jpg,dog\n", {"cat"}), "list.txt:1: class \"dog\" is not in dataset.classes"));
}

TEST_CASE("filelist: given classes") {
  const FolderOf folder{{"list.txt", "a.jpg,cat\nb.jpg,dog\nc.jpg,bird\n"}};
  DatasetOptions options = options_for(folder / "list.txt");
  options.classes = {"dog", "cat"};
  const auto named = build_dataset(options);
  CHECK(samples_of(*named, folder.path()) == Lines{"a.jpg label 1", "b.jpg label 0"});
  CHECK(count_bad(*named) == 1);

  write_file(folder / "list.txt", "a.jpg,1\nb.jpg,0\nc.jpg,2\n");
  const auto numbered = build_dataset(options);
  CHECK(samples_of(*numbered, folder.path()) == Lines{"a.jpg label 1", "b.jpg label 0"});
  CHECK(numbered->classes() == options.classes);
  REQUIRE(find_skipped(*numbered, "list.txt:3") != nullptr);

  // Classes whose names are numbers are matched by name.
  options.classes = {"2", "1", "0"};
  CHECK(samples_of(*build_dataset(options), folder.path()) == Lines{"a.jpg label 1", "b.jpg label 2", "c.jpg label 0"});
}

TEST_CASE("filelist: a labels file, by line or by path") {
  const FolderOf folder{{"list.txt", "a.jpg\n./b.jpg\n"}};
  DatasetOptions options = options_for(folder / "list.txt");
  options.labels = (folder / "labels.txt").string();
  const Lines expected{"a.jpg label 1", "./b.jpg label 0"};

  write_file(folder / "labels.txt", "dog\ncat\n");
  CHECK(samples_of(*build_dataset(options), folder.path()) == expected);
  write_file(folder / "labels.txt", "b.jpg,cat\nunused.jpg,cow\na.jpg,dog\n");
  const auto by_path = build_dataset(options);
  CHECK(samples_of(*by_path, folder.path()) == expected);

  write_file(folder / "labels.txt", "dog\n");
  CHECK(contains(build_error(options), "1 labels for the 2 images"));
  write_file(folder / "labels.txt", "a.jpg,dog\n");
  const auto partial = build_dataset(options);
  CHECK(partial->size() == 1);
  CHECK(count_bad(*partial) == 1);
  write_file(folder / "labels.txt", "a.jpg,dog\nb.jpg\n");
  CHECK(contains(build_error(options), "labels.txt:2: no label"));
  write_file(folder / "labels.txt", "a.jpg,dog\na.jpg,cat\n");
  CHECK(contains(build_error(options), "labels.txt:2: \"a.jpg\" has two labels"));
  std::filesystem::remove(folder / "labels.txt");
  CHECK(contains(build_error(options), "dataset.labels = "));
  write_file(folder / "labels.txt", "dog\ncat\n");
  write_file(folder / "list.txt", "a.jpg,dog\nb.jpg,cat\n");
  CHECK(contains(build_error(options), "leave one of them out"));
}

TEST_CASE("filelist: images without labels take their annotations") {
  const FolderOf folder{{"set/JPEGImages/a.jpg", "jpeg"},
                        {"set/JPEGImages/b.jpg", "jpeg"},
                        {"set/Annotations/a.xml", annotation(object("dog") + object("cat"))},
                        {"set/Annotations/unlisted.xml", "not read"},
                        {"Data/val/n01/c.jpg", "jpeg"},
                        {"Annotations/val/n01/c.xml", annotation(object("cow"))}};
  write_file(folder / "set/lists/list.txt",
             "../JPEGImages/a.jpg\n../JPEGImages/b.jpg\n" + (folder / "Data/val/n01/c.jpg").string());
  const auto dataset = build_dataset(options_for(folder / "set/lists/list.txt"));
  CHECK(samples_of(*dataset, folder.path()) == Lines{"set/lists/../JPEGImages/a.jpg#object 1 label 2 box 0 0 10 20",
                                                     "set/lists/../JPEGImages/a.jpg#object 2 label 0 box 0 0 10 20",
                                                     "Data/val/n01/c.jpg#object 1 label 1 box 0 0 10 20"});
  CHECK(dataset->counts().annotations == 2);
  CHECK(count_bad(*dataset) == 0);
  CHECK(read_sample(*dataset, 0) == "jpeg");
  CHECK(skip_reason(*dataset, "b.jpg") == "no annotation file");
}

TEST_CASE("folder: classes are the top folders in byte order, images any depth below") {
  const TemporaryDirectory folder;
  for (const char* path :
       {"b/x.jpg", "b/deep/y.jpeg", "a/z.jpe", "B/w.JPG", "a/.hidden.jpg", ".git/v.jpg", "stray.jpg"}) {
    write_file(folder / path, path);
  }
  write_file(folder / "a/notes.txt", "notes");
  std::filesystem::create_directory(folder / "empty");
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->format() == "folder");
  CHECK(dataset->classes() == Lines{"B", "a", "b", "empty"});
  CHECK(samples_of(*dataset, folder.path()) ==
        Lines{"B/w.JPG label 0", "a/z.jpe label 1", "b/deep/y.jpeg label 2", "b/x.jpg label 2"});
  CHECK(read_sample(*dataset, 2) == "b/deep/y.jpeg");
  CHECK(count_bad(*dataset) == 0);
  CHECK(find_skipped(*dataset, "/stray.jpg") != nullptr);
  CHECK(find_skipped(*dataset, "/notes.txt") != nullptr);
  CHECK(find_skipped(*dataset, "/empty") != nullptr);
  CHECK(find_skipped(*dataset, ".hidden.jpg") == nullptr);

  DatasetOptions options = options_for(folder.path());
  options.classes = {"b", "a"};
  const auto chosen = build_dataset(options);
  CHECK(chosen->size() == 3);
  CHECK(chosen->sample(0).label == 1);
  CHECK(skip_reason(*chosen, "/B") == "not in dataset.classes: 1 images left out");
  const auto told = [](const Dataset& of) {
    const auto found = std::ranges::find_if(of.skipped(), &Skipped::told);
    return found == of.skipped().end() ? "" : found->reason;
  };
  CHECK(told(*chosen) == R"(1 image left out, because dataset.classes does not name "B")");
  options.classes = {"b", "A"};
  CHECK(
      told(*build_dataset(options)) ==
      R"(2 images left out, because dataset.classes does not name "B", "a"; it names, and here are no images of, "A")");
  options.classes = {"x"};
  CHECK(contains(build_error(options),
                 R"(none of its class folders is in dataset.classes ("x"); they are "B", "a", "b", "empty")"));
}

TEST_CASE("folder: many stray files are counted, not listed") {
  const FolderOf folder{{"a/x.jpg", "jpeg"}, {"b/x.jpg", "jpeg"}};
  for (int i = 0; i < 1500; ++i) write_file(folder / ("a/" + std::to_string(i) + ".bak"), "");
  for (int i = 0; i < 20; ++i) write_file(folder / ("a/z" + std::to_string(i) + ".txt"), "");
  const auto dataset = build_dataset(options_for(folder.path()));
  REQUIRE(dataset->skipped().size() == 1001);
  CHECK(dataset->skipped().back().reason == "and 520 more: 500 x .bak, 20 x .txt");
  CHECK_FALSE(dataset->skipped().back().bad);
}

TEST_CASE("a format that does not fit the path says what it needs") {
  const FolderOf folder{{"list.txt", "a.jpg\n"}};
  CHECK(
      contains(build_error(options_for(folder / "list.txt", "voc")), "is a file, but format = \"voc\" needs a folder"));
  CHECK(contains(build_error(options_for(folder.path(), "filelist")), "is a folder, but format = \"filelist\""));
  CHECK(contains(build_error(options_for(folder.path(), "parquet")),
                 "known are auto, voc, filelist, table, coco, folder, labelme, cvat, yolo, idx, cifar, tfrecord, "
                 "webdataset, recordio, lmdb, npy, pack"));
  write_file(folder / "photo.jpg", "\xFF\xD8\xFF\xE0");
  CHECK(contains(build_error(options_for(folder / "photo.jpg")), "is an image, and no list of them"));
  write_file(folder / "empty.txt", "");
  CHECK(contains(build_error(options_for(folder / "empty.txt")), "the file is empty"));
}

}  // namespace forebay::test_dataset_files
