#include "container_files.hpp"
#include "data/path_pattern.hpp"
#include "index_support.hpp"
#include "test.hpp"

// WebDataset's tar archives: which members form a sample, and what happens with broken archives.

namespace forebay::test_webdataset {

using namespace forebay::testing;

namespace {

std::unique_ptr<Dataset> dataset_of(const TemporaryDirectory& folder, const std::string& archive) {
  write_file(folder / "x.tar", archive);
  return build_dataset(options_for(folder / "x.tar"));
}

// The part of a name after the file: "[record 0, key]".
std::string key_of(const Dataset& dataset, std::uint64_t id) {
  const std::string name = dataset.name(id);
  return name.substr(name.find('['));
}

}  // namespace

TEST_CASE("samples are members of one stem; shards of a folder, of a pattern and alone, plain and compressed") {
  const TemporaryDirectory folder;
  write_file(folder / "train-000.tar",
             tar_sample("n01/a", kJpeg + "a", "3") + tar_sample("n02/a.b/c", kJpeg + "c", "0\n") + tar_end());
  write_gzip(folder / "train-001.tar.gz", tar_sample("d", kJpeg + "d", " 2 ") + tar_end());
  write_gzip(folder / "val-000.tgz", tar_sample("e", kJpeg + "e", "1") + tar_end());
  const auto train = build_dataset(options_for(folder.path()));
  CHECK(train->format() == "webdataset");
  CHECK(labels_of(*train) == std::vector<std::int64_t>{3, 0, 2});
  CHECK(train->classes() == std::vector<std::string>{"0", "1", "2", "3"});
  CHECK(train->name(1) == (folder / "train-000.tar").string() + "[record 1, n02/a.b/c]");
  CHECK(train->name(2) == (folder / "train-001.tar.gz").string() + "[record 0, d]");
  CHECK(read_sample(*train, 0) == kJpeg + "a");
  CHECK(read_sample(*train, 1) == kJpeg + "c");
  CHECK(read_sample(*train, 2) == kJpeg + "d");
  REQUIRE(train->skipped().size() == 1);
  CHECK_FALSE(train->skipped()[0].bad);
  CHECK(contains(train->skipped()[0].reason, "not read: names of others in the folder say \"train\""));
  CHECK(labels_of(*build_dataset(options_for(folder / "val-000.tgz"))) == std::vector<std::int64_t>{1});
  CHECK(build_dataset(options_for(folder / "{val-000.tgz,train-000.tar}"))->size() == 3);
  write_file(folder / "without-ending", tar_sample("f", kJpeg, "1"));
  CHECK(build_dataset(options_for(folder / "without-ending"))->format() == "webdataset");
}

TEST_CASE("samples are named below the first folder that varies; of a URL only braces do") {
  CHECK(data::folder_of_pattern("/data/a[1]/x-*.tar") == "/data");
  CHECK(data::folder_of_pattern("http://[::1]:80/a*b/x-{0..1}.tar") == "http://[::1]:80/a*b");
}

TEST_CASE("an index of a pattern is stale when other folders match it, although their files are called the same") {
  const TemporaryDirectory folder;
  for (const char* name : {"a", "b"}) write_file(folder / name / "train.tar", tar_sample(name, kJpeg, "0") + tar_end());
  const Kept kept(options_for(folder / "*/train.tar"));
  std::filesystem::rename(folder / "b", folder / "c");
  CHECK(contains(kept.error(), "other contents of"));
}

TEST_CASE("a folder with images or folders is no WebDataset because an archive lies in it") {
  const FolderOf folder{{"downloaded.tar", tar_sample("a", kJpeg, "0") + tar_end()}, {"cat/a.jpg", kJpeg}};
  CHECK(build_dataset(options_for(folder.path()))->format() == "folder");
}

TEST_CASE("the image is the member that is called like one") {
  const TemporaryDirectory folder;
  const auto image_among = [&](const std::string& others) {
    return read_sample(*dataset_of(folder, others + tar_member("a.cls", "1")), 0);
  };
  CHECK(image_among(tar_member("a.seg.png", "mask") + tar_member("a.JPG", kJpeg)) == kJpeg);
  CHECK(image_among(tar_member("a.png", "png") + tar_member("a.txt", "text")) == "png");
  CHECK(image_among(tar_member("a.webp", "webp") + tar_member("a.npy", "npy")) == "webp");
  for (const std::string kind : {"npy", "jpe", "bmp", "ppm"}) CHECK(image_among(tar_member("a." + kind, kind)) == kind);
  CHECK(image_among(tar_member("a.image.png", "png") + tar_member("a.mask.png", "mask")) == "png");
  const auto error = error_of([&] { (void)image_among(tar_member("a.seg.png", "mask")); });
  CHECK(contains(error, "[record 0, a]: byte 0: has no image (.jpg, .png and the like), only .seg.png, .cls"));
}

TEST_CASE("members that belong to no sample are left out, whatever they are") {
  const TemporaryDirectory folder;
  const auto dataset =
      dataset_of(folder, tar_member("./", "", '5') + tar_member("a.jpg", kJpeg) + tar_member("/etc/b.jpg", "", '2') +
                             tar_member("c.jpg", "", '1') + tar_member("pipe.jpg", "", '6') +
                             tar_member(".hidden.jpg", "h") + tar_member("noext", "x") +
                             tar_member("__meta__.jpg__", "x") + tar_member("../../up.jpg", kJpeg + "up") +
                             tar_member("folder.jpg/", "") + tar_member("old", kJpeg, '\0') + tar_end() + "rubbish");
  REQUIRE(dataset->size() == 2);
  CHECK(key_of(*dataset, 0) == "[record 0, a]");
  CHECK(key_of(*dataset, 1) == "[record 1, ../../up]");
  CHECK(read_sample(*dataset, 1) == kJpeg + "up");
  CHECK(count_bad(*dataset) == 0);
  REQUIRE(dataset->skipped().size() == 4);
  CHECK(dataset->skipped()[2].reason == "4 members that belong to no sample");
}

TEST_CASE("members of one sample need not stand together, and none may be there twice") {
  const TemporaryDirectory folder;
  const auto dataset =
      dataset_of(folder, tar_member("a.jpg", kJpeg + "a") + tar_member("b.jpg", kJpeg + "b") +
                             tar_member("b.cls", "1") + tar_member("a.cls", "0") + tar_member("c.jpg", kJpeg) +
                             tar_member("c.cls", "1") + tar_member("c.jpg", kJpeg) + tar_end());
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0, 1});
  CHECK(read_sample(*dataset, 1) == kJpeg + "b");
  REQUIRE(count_bad(*dataset) == 1);
  CHECK(dataset->skipped()[0].path.ends_with("[record 2, c]"));
  CHECK(contains(dataset->skipped()[0].reason, "has two members .jpg"));
}

TEST_CASE("classes as texts, and as members of JSON objects") {
  const TemporaryDirectory folder;
  std::string archive;
  const std::vector<std::string> texts{"3",
                                       "3\n",
                                       " 3 ",
                                       "+3",
                                       "-1",
                                       "3.0",
                                       "",
                                       "abc",
                                       "99999999999999999999",
                                       "\xEF\xBB\xBF"
                                       "3"};
  for (std::size_t i = 0; i < texts.size(); ++i) archive += tar_sample(std::to_string(i), kJpeg, texts[i]);
  std::vector<std::int64_t> expected{3, 3, 3, 3, -1, 3, 3};
  for (std::size_t i = 0; i < 30; ++i) {
    archive += tar_sample("more" + std::to_string(i), kJpeg, "0");
    expected.push_back(0);
  }
  const auto by_text = dataset_of(folder, archive + tar_end());
  CHECK(labels_of(*by_text) == expected);
  CHECK(count_bad(*by_text) == 3);
  CHECK(contains(skip_reason(*by_text, "[record 7, 7]"), "label \"abc\" is no class number, as nearly all"));

  archive.clear();
  const std::vector<std::string> objects{R"({"label": 2, "name": "x"})",
                                         R"({"class": "1"})",
                                         R"({"label": 0.0})",
                                         R"({"label": [1, 2]})",
                                         R"({"cls": -1})",
                                         R"({"other": 1})",
                                         R"({"label": )",
                                         R"([1])",
                                         R"({"label": 1e300})",
                                         R"({"label": 18446744073709551615})",
                                         std::string(100, '[')};
  for (std::size_t i = 0; i < objects.size(); ++i) {
    archive += tar_member(std::to_string(i) + ".jpg", kJpeg) + tar_member(std::to_string(i) + ".json", objects[i]);
  }
  const auto by_json = dataset_of(folder, archive);
  CHECK(labels_of(*by_json) == std::vector<std::int64_t>{2, 1, 0, -1, -1, -1});
  CHECK(count_bad(*by_json) == 5);
  CHECK(contains(skip_reason(*by_json, "[record 6, 6]"), "its .json is no JSON"));
  CHECK(contains(skip_reason(*by_json, "[record 10, 10]"), "its .json is nested too deeply"));
  CHECK(contains(skip_reason(*by_json, "[record 5, 5]"), "has no class, where others have one"));

  const auto names =
      dataset_of(folder, tar_sample("0", kJpeg, "dog") + tar_sample("1", kJpeg, "cat\n") + tar_sample("2", kJpeg, "7"));
  CHECK(names->classes() == std::vector<std::string>{"7", "cat", "dog"});
  CHECK(labels_of(*names) == std::vector<std::int64_t>{2, 1, 0});
  const auto without = dataset_of(folder, tar_member("a.jpg", kJpeg) + tar_member("a.txt", "a caption"));
  CHECK(labels_of(*without) == std::vector<std::int64_t>{-1});
}

TEST_CASE("all labels together decide what classes are, whatever the order of members and files") {
  const TemporaryDirectory folder;
  const auto archive_of = [](const std::vector<std::string>& labels) {
    std::string archive;
    for (const std::string& label : labels) archive += tar_sample(std::to_string(archive.size()), kJpeg, label);
    return archive + tar_end();
  };
  std::vector<std::string> numbers;
  std::vector<std::int64_t> expected;
  for (int i = 0; i < 12; ++i) {
    numbers.push_back(std::to_string(i) + (i % 2 == 0 ? ".0" : ""));
    expected.push_back(i);
  }
  CHECK(labels_of(*dataset_of(folder, archive_of(numbers))) == expected);
  for (const bool is_first : {false, true}) {
    CAPTURE(is_first);
    // A word that means "none" is not a class, which is reported.
    auto labels = numbers;
    labels.insert(is_first ? labels.begin() : labels.end(), "none");
    auto with_none = expected;
    with_none.insert(is_first ? with_none.begin() : with_none.end(), -1);
    const auto dataset = dataset_of(folder, archive_of(labels));
    CHECK(labels_of(*dataset) == with_none);
    REQUIRE(dataset->skipped().size() == 1);
    CHECK(dataset->skipped()[0].told);
    CHECK(contains(dataset->skipped()[0].reason, "1 of 13 samples are served with label -1"));
    // Any other word is damage, in this file or another.
    write_file(folder / "shards/1.tar", archive_of(is_first ? std::vector<std::string>{"dog"} : numbers));
    write_file(folder / "shards/2.tar", archive_of(is_first ? numbers : std::vector<std::string>{"dog"}));
    const auto shards = build_dataset(options_for(folder / "shards"));
    CHECK(labels_of(*shards) == expected);
    CHECK(count_bad(*shards) == 1);
  }
  CHECK(contains(error_of([&] {
                   (void)dataset_of(folder, archive_of({"1", "2", "3", "dog"}));
                 }),
                 "label \"dog\" is no class number, as 3 of the 4 labels are"));
}

TEST_CASE("a word for missing values among names of classes is warned of") {
  const TemporaryDirectory folder;
  write_file(folder / "x.tar", tar_sample("a", kJpeg, "owl") + tar_sample("b", kJpeg, "None") + tar_end());
  const auto dataset = build_dataset(options_for(folder / "x.tar"));
  CHECK(contains(skip_reason(*dataset, "x.tar"), "\"None\" is served as a class"));
}

TEST_CASE("a class that is no text is bad: UTF-16, a pickled number, two lines") {
  const TemporaryDirectory folder;
  for (const std::string& text : {std::string("\xFF\xFE"
                                              "1\0",
                                              4),
                                  std::string("\x80\4K\1."), std::string("cat\ndog")}) {
    const auto dataset = dataset_of(folder, tar_sample("a", kJpeg, "cat") + tar_sample("b", kJpeg, text) + tar_end());
    CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0});
    CHECK(contains(skip_reason(*dataset, "[record 1, b]"), "its class has control characters"));
  }
}

TEST_CASE("labels that are lists: one-hot, and what is no class") {
  const TemporaryDirectory folder;
  const auto dataset_with = [&](const std::vector<std::string>& labels) {
    std::string archive;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      archive += tar_member(std::to_string(i) + ".jpg", kJpeg) +
                 tar_member(std::to_string(i) + ".json", R"({"label": )" + labels[i] + "}");
    }
    return dataset_of(folder, archive + tar_end());
  };
  const auto hot = dataset_with({"[0, 1, 0]", "[1, 0, 0]", "[0.0, 0, 1.0]"});
  CHECK(labels_of(*hot) == std::vector<std::int64_t>{1, 0, 2});
  CHECK(hot->classes().size() == 3);
  CHECK(hot->skipped().empty());
  CHECK(labels_of(*dataset_with({"true", "false", "null"})) == std::vector<std::int64_t>{1, 0, -1});
  for (const std::vector<std::string>& labels :
       {std::vector<std::string>{"[0, 1, 0]", "[1, 1, 0]"}, {"[0, 1, 0]", "[0, 1]"}, {"[0.25, 0.5]", "{}"}}) {
    CAPTURE(labels[1]);
    const auto dataset = dataset_with(labels);
    CHECK(labels_of(*dataset) == std::vector<std::int64_t>{-1, -1});
    REQUIRE(dataset->skipped().size() == 1);
    CHECK(dataset->skipped()[0].told);
    CHECK(contains(dataset->skipped()[0].reason, "no sample has a label, all are -1: labels are there"));
  }
  const auto without = dataset_of(folder, tar_member("a.jpg", kJpeg) + tar_member("a.target", "1") + tar_end());
  CHECK(contains(skip_reason(*without, "x.tar"), "the first sample has .jpg, .target; [fields.label] from"));
}

TEST_CASE("a label that no sample has is warned of, though there is another field") {
  const TemporaryDirectory folder;
  write_file(folder / "x.tar",
             tar_member("a.jpg", kJpeg) + tar_member("a.json", R"({"class_id": 1, "age": 3})") + tar_end());
  DatasetOptions options = options_for(folder / "x.tar");
  options.fields = {{.name = "label", .from = "json.clas_id"},
                    {.name = "age", .from = "json.age", .kind = FieldKind::numbers}};
  const auto dataset = build_dataset(options);
  REQUIRE_FALSE(dataset->skipped().empty());
  CHECK(dataset->skipped().back().told);
  CHECK(contains(dataset->skipped().back().reason, "no sample has a label, all are -1"));
}

TEST_CASE("what lies after the end of an archive is said, and that there is no end") {
  const TemporaryDirectory folder;
  const std::string archive = tar_sample("a", kJpeg, "0");
  CHECK(dataset_of(folder, archive + tar_end())->skipped().empty());
  CHECK(dataset_of(folder, archive + tar_end() + std::string(200'000, '\0'))->skipped().empty());
  const auto warning_of = [&](const std::string& content) {
    const auto dataset = dataset_of(folder, content);
    CHECK(dataset->size() == 1);
    REQUIRE(dataset->skipped().size() == 1);
    CHECK(dataset->skipped()[0].told);
    return dataset->skipped()[0].reason;
  };
  CHECK(contains(warning_of(archive), "byte " + std::to_string(archive.size()) + ": no block of zeros marks the end"));
  const std::string end = archive + std::string(512, '\0');
  const std::string behind = "byte " + std::to_string(end.size()) + ": ";
  CHECK(warning_of(end + std::string(512, 'x')) == behind + "512 bytes after the end of the archive are not read");
  CHECK(contains(warning_of(end + std::string(100'000 / 512 * 512, '\0') + "x"), ": 1 bytes after the end"));
  CHECK(contains(warning_of(end + archive + tar_end()), "another archive begins there"));
  write_gzip(folder / "y.tar.gz", archive + tar_end() + archive + tar_end());
  CHECK(contains(build_dataset(options_for(folder / "y.tar.gz"))->skipped().at(0).reason, "another archive begins"));
}

TEST_CASE("a name that has dots before its ending is said to end at the first") {
  const TemporaryDirectory folder;
  CHECK(contains(error_of([&] { (void)dataset_of(folder, tar_member("Track 2.0.jpg", kJpeg) + tar_end()); }),
                 "only .0.jpg. A sample's name ends at the first dot of the file's: rename files"));
}

TEST_CASE("long names by GNU's, pax's and ustar's means, and sizes in base 256") {
  const TemporaryDirectory folder;
  const std::string deep = std::string(120, 'd') + "/" + std::string(90, 'e');
  const auto prefix = [&](TarHeader& header) {
    std::memcpy(header.data() + 257,
                "ustar\0"
                "00",
                8);
    std::string(100, 'p').copy(header.data() + 345, 155);
  };
  const auto base256 = [](TarHeader& header) {
    std::memset(header.data() + 124, 0, 12);
    header[124] = static_cast<char>(0x80);
    header[135] = static_cast<char>(kJpeg.size());
  };
  const auto wrong_size = [](TarHeader& header) { std::snprintf(header.data() + 124, 12, "%011o", 1U); };
  const std::string sized = tar_member("d.jpg", std::string(1, 'd'));
  const auto dataset = dataset_of(
      folder, tar_member("././@LongLink", deep + "/a.jpg" + std::string(1, '\0'), 'L') +
                  tar_member("short", kJpeg + "a") +
                  tar_member("PaxHeader/b", pax_line("mtime", "1.5") + pax_line("path", deep + "/b.jpg"), 'x') +
                  tar_member("short", kJpeg + "b") + tar_member("c.jpg", kJpeg + "c", '0', prefix) +
                  tar_member("g", pax_line("comment", "for all"), 'g') + tar_member("d.jpg", kJpeg, '0', base256) +
                  tar_member("PaxHeader/e", pax_line("size", std::to_string(kJpeg.size())), 'x') +
                  tar_member("e.jpg", kJpeg, '0', wrong_size) + tar_member("f.jpg", kJpeg + "f") + tar_end());
  REQUIRE(dataset->size() == 6);
  CHECK(key_of(*dataset, 0) == "[record 0, " + deep + "/a]");
  CHECK(key_of(*dataset, 1) == "[record 1, " + deep + "/b]");
  CHECK(key_of(*dataset, 2) == "[record 2, " + std::string(100, 'p') + "/c]");
  CHECK(read_sample(*dataset, 1) == kJpeg + "b");
  CHECK(read_sample(*dataset, 3) == kJpeg);
  CHECK(read_sample(*dataset, 4) == kJpeg);
  CHECK(read_sample(*dataset, 5) == kJpeg + "f");
}

TEST_CASE("sparse members are left out, and what follows them is found") {
  const TemporaryDirectory folder;
  const auto continued = [](TarHeader& header) { header[482] = 1; };
  const std::string gnu = tar_member("a.jpg", "data", 'S', continued);
  const std::string pax = tar_member("p", pax_line("GNU.sparse.major", "1") + pax_line("GNU.sparse.minor", "0"), 'x') +
                          tar_member("GNUSparseFile.0/b.jpg", "map and data");
  const auto dataset = dataset_of(folder, gnu.substr(0, 512) + std::string(512, '\0') + gnu.substr(512) + pax +
                                              tar_member("c.jpg", kJpeg) + tar_end());
  REQUIRE(dataset->size() == 1);
  CHECK(read_sample(*dataset, 0) == kJpeg);
  CHECK(dataset->skipped().back().reason == "2 members that belong to no sample");
}

TEST_CASE("an archive that is damaged keeps what stands before that") {
  const TemporaryDirectory folder;
  const std::string good = tar_sample("a", kJpeg, "0") + tar_sample("b", kJpeg, "1");
  std::string bad_sum = tar_member("c.jpg", kJpeg);
  bad_sum[0] = 'x';
  const auto size = [](const std::string& text) {
    return tar_member("c.jpg", "", '0', [=](TarHeader& header) { text.copy(header.data() + 124, 12); });
  };
  std::string negative(12, '\xFF');
  std::string huge = std::string("\x80\0\0\0", 4) + std::string(8, '\x10');
  for (const auto& [tail, at, reason] : std::vector<std::tuple<std::string, std::size_t, std::string>>{
           {bad_sum, 0, "no header of a tar member: its checksum is wrong"},
           {std::string("abc"), 0, "it ends within the header of a tar member"},
           {tar_member("c.jpg", kJpeg).substr(0, 520), 0,
            "it ends within a tar member of " + std::to_string(kJpeg.size()) + " bytes"},
           {size("77777777777"), 0, "it ends within a tar member of 8589934591 bytes"},
           {size("12x"), 124, "the size of a tar member is no number"},
           {size(negative), 124, "the size of a tar member is no number"},
           {size(huge), 0, "it ends within a tar member of"},
           {tar_member("p", "99 path=x\n", 'x'), 0, "a pax header that is none"},
           {tar_member("p", "xyz", 'x'), 0, "a pax header that is none"},
           {tar_member("p", pax_line("size", "-5"), 'x') + tar_member("c.jpg", kJpeg), 1024,
            "the size of a tar member"},
           {tar_member("L", std::string((1U << 20U) + 1, 'n'), 'L'), 0,
            "a header of a tar member has more than 1 MiB"}}) {
    CAPTURE(reason);
    const auto dataset = dataset_of(folder, good + tail);
    CHECK(dataset->size() == 2);
    REQUIRE(count_bad(*dataset) == 1);
    CHECK(contains(dataset->skipped()[0].reason, "byte " + std::to_string(good.size() + at) + ": " + reason));
  }
}

TEST_CASE("whatever is behind correct checksums of a tar archive ends in samples or in errors") {
  const TemporaryDirectory folder;
  for (std::size_t at = 0; at < 512; ++at) {
    for (const char byte : {'\0', '\x7F', '\xFF', '9'}) {
      const auto change = [&](TarHeader& header) { header[at] = byte; };
      for (const char type : {'0', 'x', 'S', 'L'}) {
        replace_file(folder / "x.tar",
                     tar_member("a.jpg", pax_line("path", "b.jpg"), type, change) + tar_sample("c", kJpeg, "1"));
        use_file(folder / "x.tar", "webdataset");
      }
    }
    if (kSanitized) at += 3;
  }
}

}  // namespace forebay::test_webdataset
