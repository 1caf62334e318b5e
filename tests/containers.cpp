#include <forebay/config.hpp>

#include "container_files.hpp"
#include "index_support.hpp"
#include "test.hpp"
#include "zip_files.hpp"

// What all containers have in common: which folders they recognise, files that change after
// indexing, impossible class numbers, names, and how much a file can make Forebay allocate.

namespace forebay::test_containers {

using namespace forebay::testing;

namespace {

const std::string kLong = kJpeg + std::string(20'000, 'x');
const std::string kChanged = "not the file that its index was made from";

// The error of reading the last sample of an index after `change` was made to its data.
std::string error_after(const std::filesystem::path& path, const std::function<void()>& change) {
  const auto bytes = build_dataset(options_for(path))->serialize();
  change();
  const auto restored = restore_dataset(bytes, "memory");
  return error_of([&] { (void)read_sample(*restored, restored->size() - 1); });
}

void set_time(const std::filesystem::path& path, int hours_ago) {
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours_ago));
}

}  // namespace

TEST_CASE("folders of images and of annotations are not taken for containers by what lies beside them") {
  for (const std::string name : {"model.ckpt.data-00000-of-00001", "voice.record", "x.rec", "data.mdb", "x.tar"}) {
    CAPTURE(name);
    const FolderOf folder{{"cat/1.jpg", kJpeg}, {"dog/1.jpg", kJpeg}, {name, "anything"}};
    const auto dataset = build_dataset(options_for(folder.path()));
    CHECK(dataset->format() == "folder");
    CHECK(dataset->size() == 2);
    const FolderOf voc{
        {"JPEGImages/x.jpg", kJpeg}, {"Annotations/x.xml", annotation(object("cat"))}, {name, "anything"}};
    CHECK(build_dataset(options_for(voc.path()))->format() == "voc");
  }
  // Folders without images make no difference.
  const FolderOf shards{{"x.rec", record_part(image_record(kJpeg, 0.0F))}, {"logs/run.txt", "text"}};
  CHECK(build_dataset(options_for(shards.path()))->format() == "recordio");
}

TEST_CASE("a container that changed behind its first bytes is noticed, and one that was only copied is not") {
  const TemporaryDirectory folder;
  const auto archive = [&](const std::string& label) {
    return tar_sample("a", kLong, "0") + tar_sample("b", kLong, label) + tar_end();
  };
  write_file(folder / "x.tar", archive("1"));
  set_time(folder / "x.tar", 5);
  CHECK(contains(error_after(folder / "x.tar", [&] { write_file(folder / "x.tar", archive("0")); }), kChanged));
  CHECK(error_after(folder / "x.tar", [&] {
          write_file(folder / "x.tar", archive("0"));
          set_time(folder / "x.tar", 3);
        }).empty());
  const auto first = build_dataset(options_for(folder / "x.tar"));
  set_time(folder / "x.tar", 2);
  CHECK(fingerprint(*first) == fingerprint(*build_dataset(options_for(folder / "x.tar"))));

  // The end of a large file is compared, although the middle is not.
  const std::string large = archive("1") + std::string(3U << 20U, '\0');
  write_file(folder / "large.tar", large);
  CHECK(contains(error_after(folder / "large.tar",
                             [&] { write_file(folder / "large.tar", large.substr(0, large.size() - 1) + "x"); }),
                 kChanged));
}

TEST_CASE("compressed containers that changed are noticed, whatever they are called, and so are joined records") {
  const TemporaryDirectory folder;
  const auto gzipped = [&](const std::string& name, const std::string& content, const std::string& changed) {
    write_gzip(folder / name, content);
    CHECK(error_after(folder / name, [] {}).empty());
    CHECK(contains(error_after(folder / name, [&] { write_gzip(folder / name, changed); }), kChanged));
  };
  gzipped("x.tar", tar_sample("a", kJpeg + "1", "0"), tar_sample("a", kJpeg + "2", "0"));
  gzipped("x.rec", record_part(image_record(kJpeg + "1", 0.0F)), record_part(image_record(kJpeg + "2", 0.0F)));
  const auto parts = [](const std::string& end) {
    return record_part(image_record(kLong, 0.0F)) + record_part(image_record(kLong, 1.0F), 1) + record_part(end, 3);
  };
  write_file(folder / "parts.rec", parts("end"));
  CHECK(contains(error_after(folder / "parts.rec", [&] { write_file(folder / "parts.rec", parts("dne")); }), kChanged));
}

TEST_CASE("a saved index is refused when its folder has other shards") {
  const TemporaryDirectory folder;
  for (const std::string ending : {".rec", ".tfrecord", ".tar"}) {
    const std::filesystem::path shards = folder / ending.substr(1);
    const std::string content = ending == ".rec"   ? record_part(image_record(kJpeg, 0.0F))
                                : ending == ".tar" ? tar_sample("a", kJpeg, "0")
                                                   : tf_record(image_example(kJpeg, 0));
    write_file(shards / ("a" + ending), content);
    const Kept kept(options_for(shards));
    CHECK(contains(kept.error_with(shards / ("b" + ending), content), "or other files"));
  }
}

TEST_CASE("one damaged class number does not decide how many classes there are") {
  const TemporaryDirectory folder;
  std::string records;
  for (int i = 0; i < 50; ++i) records += tf_record(image_example(kJpeg, i % 4));
  std::string damaged = tf_record(image_example(kJpeg, 3'000'000));
  damaged.back() = static_cast<char>(damaged.back() + 1);
  write_file(folder / "x.tfrecord", records + damaged);
  const auto by_sum = build_dataset(options_for(folder / "x.tfrecord"));
  CHECK(by_sum->classes().size() == 4);
  CHECK(by_sum->size() == 50);
  CHECK(contains(skip_reason(*by_sum, "[record 50]"), "damaged"));

  write_file(folder / "x.rec", record_part(image_record(kJpeg, 2.0F)) + record_part(image_record(kJpeg, 3e6F)));
  const auto by_count = build_dataset(options_for(folder / "x.rec"));
  CHECK(by_count->classes().size() == 3);
  CHECK(contains(skip_reason(*by_count, "[record 1]"), "label 3000000 of 3 classes, too large for so few"));
}

TEST_CASE("names repeat where archives were joined, and those of one sample do not") {
  const TemporaryDirectory folder;
  write_file(folder / "x.tar",
             tar_sample("a", kJpeg + "1", "0") + tar_sample("b", kJpeg + "2", "1") + tar_sample("a", kJpeg + "3", "2"));
  const auto dataset = build_dataset(options_for(folder / "x.tar"));
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(read_sample(*dataset, 2) == kJpeg + "3");
  CHECK(count_bad(*dataset) == 0);
}

TEST_CASE("a file that a pattern stands for twice comes once, and patterns give names that do not depend on others") {
  const FolderOf folder{{"pr/train/x10.tar", tar_sample("a", kJpeg, "0")},
                        {"pr/train/x1.tar", tar_sample("b", kJpeg, "0")}};
  CHECK(build_dataset(options_for(folder / "pr/train/x{1,10}*.tar"))->size() == 2);
  const auto below_root = [&](const std::string& pattern) {
    DatasetOptions options = options_for(folder / pattern);
    options.index = (folder / "saved").string();
    std::filesystem::remove(folder / "saved");
    (void)open_dataset(options);
    return contains(read_text(folder / "saved"), "train/x1.tar");
  };
  CHECK(below_root("pr/*/x1.tar"));
  write_file(folder / "pr/val/x1.tar", tar_sample("c", kJpeg, "0"));
  CHECK(below_root("pr/*/x1.tar"));
}

TEST_CASE("what a file can ask for is bounded") {
  const TemporaryDirectory folder;
  std::string empty;
  for (int i = 0; i < 30'000; ++i) empty += tf_record("");
  write_file(folder / "x.tfrecord", empty + tf_record(image_example(kJpeg, 0)));
  const auto dataset = build_dataset(options_for(folder / "x.tfrecord"));
  CHECK(dataset->size() == 1);
  CHECK(count_bad(*dataset) == 10'001);
  CHECK(contains(skip_reason(*dataset, "x.tfrecord"), "20000 more records that cannot be used"));

  std::string members;
  for (int i = 0; i < 100; ++i) members += tar_member("a." + std::to_string(i), "x");
  write_file(folder / "x.tar", members + tar_sample("b", kJpeg, "0"));
  const auto archive = build_dataset(options_for(folder / "x.tar"));
  CHECK(contains(archive->skipped()[0].reason, "only .0, .1, .2, .3, .4, .5, .6, .7, ... (100 members)"));

  std::vector<std::pair<std::string, std::string>> features;
  for (int i = 0; i < 5000; ++i) features.emplace_back("same", int64_feature({1}));
  write_file(folder / "y.tfrecord", tf_record(example(features)) + tf_record(image_example(kJpeg, 0)));
  CHECK(contains(build_dataset(options_for(folder / "y.tfrecord"))->skipped()[0].reason, "more than 4096 features"));
}

TEST_CASE("members that are no images are left out or said to be: zeros behind a header, sparse files, links, meta") {
  const TemporaryDirectory folder;
  const std::string zeros("\0\0\0\0", 4);
  const std::string sparse = tar_member("p", pax_line("GNU.sparse.size", "100000"), 'x') + tar_member("s.jpg", "data");
  write_file(folder / "x.tar", tar_member("p", pax_line("path", "a.jpg") + zeros, 'x') + tar_member("short", kJpeg) +
                                   tar_member("a.cls", "0") + sparse + tar_member("l.jpg", "", '2') +
                                   tar_member("h.jpg", "", '1') + tar_sample("__m__/a", kJpeg, "0") +
                                   tar_member("p", "xyz", 'x') + tar_member("lost.jpg", kJpeg) +
                                   tar_sample("b", kJpeg, "1") + tar_end());
  const auto dataset = build_dataset(options_for(folder / "x.tar"));
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0, 1});
  REQUIRE(count_bad(*dataset) == 1);
  CHECK(contains(dataset->skipped()[0].reason, "a pax header that is none; the member after it is left out"));
  REQUIRE(dataset->skipped().size() == 3);
  CHECK(dataset->skipped()[1].reason == "3 members that belong to no sample");
  CHECK(dataset->skipped()[2].reason == "2 links, which are not followed");
}

TEST_CASE("labels of NumPy arrays may be one-hot rows or texts, and have the names that others give them") {
  const TemporaryDirectory folder;
  const std::string images = npy_of("|u1", "(3, 2, 4)", std::string(24, 'v'));
  const std::string numbers = npy_of("<i8", "(3,)", little(2, 8) + little(0, 8) + little(1, 8));
  const auto labels_for = [&](const std::string& name, const std::string& labels, const DatasetOptions& more = {}) {
    write_file(folder / "set.npz", zip_of({{"images.npy", images}, {name + ".npy", labels}}));
    DatasetOptions options = more;
    options.path = (folder / "set.npz").string();
    const auto dataset = build_dataset(options);
    std::string text;
    for (std::uint64_t id = 0; id < dataset->size(); ++id) text += std::to_string(dataset->sample(id).label) + " ";
    for (const std::string& each : dataset->classes()) text += each + ",";
    return text;
  };
  for (const char* const name : {"labels", "targets", "target", "y", "y_train"}) {
    CAPTURE(name);
    CHECK(labels_for(name, numbers) == "2 0 1 0,1,2,");
  }
  CHECK(labels_for("labels", npy_of("|u1", "(3, 2)", std::string("\0\1\1\0\0\1", 6))) == "1 0 1 0,1,");
  CHECK(labels_for("labels", npy_of("|b1", "(3, 4)", std::string("\0\1\0\0\1\0\0\0\0\1\0\0", 12))) == "1 0 1 0,1,2,3,");
  CHECK(labels_for("labels", npy_of("|S3", "(3,)", std::string("dogcat") + std::string("ox\0", 3))) ==
        "1 0 2 cat,dog,ox,");
  const std::string utf32 =
      little(0xE9, 4) + little('x', 4) + little('a', 4) + little(0, 4) + little('b', 4) + little(0, 4);
  CHECK(labels_for("labels", npy_of("<U2", "(3,)", utf32)) == "2 0 1 a,b,\u00e9x,");
  CHECK(labels_for("labels", npy_of("|S3", "(3,)", std::string("2.00.01.0"))) == "2 0 1 0,1,2,");
  DatasetOptions named;
  named.classes = {"ox", "cat", "dog"};
  CHECK(labels_for("labels", npy_of("|S3", "(3,)", std::string("dogcat") + std::string("ox\0", 3)), named) ==
        "2 1 0 ox,cat,dog,");
}

TEST_CASE("one label of many that is no class makes its image bad, not all labels -1") {
  const TemporaryDirectory folder;
  const std::string path = (folder / "set.npz").string();
  std::string labels;
  for (int i = 0; i < 12; ++i) labels += little(static_cast<std::uint64_t>(i == 3 ? -3 : i), 8);
  write_file(path, zip_of({{"x.npy", npy_of("|u1", "(12, 1, 2)", std::string(24, 'v'))},
                           {"y.npy", npy_of("<i8", "(12,)", labels)}}));
  DatasetOptions options = options_for(path);
  options.fields = {{.name = "age", .from = "y", .kind = FieldKind::numbers, .dtype = DType::int64}};
  options.fields.push_back({.name = "label", .from = "y"});
  for (const bool has_field : {false, true}) {
    const auto dataset = build_dataset(has_field ? options : options_for(path));
    REQUIRE(dataset->size() == 11);
    CHECK(dataset->sample(2).label == 2);
    CHECK(dataset->sample(3).label == 4);
    CHECK(dataset->name(3).ends_with("[record 4]"));
    REQUIRE(dataset->skipped().size() == 1);
    CHECK(dataset->skipped()[0].bad);
    CHECK(dataset->skipped()[0].path == path + "[record 3]");
    CHECK(contains(dataset->skipped()[0].reason, "label -3 is no class from 0 to 65535"));
    if (!has_field) continue;
    Reading field;
    dataset->read_field(3, 0, field);
    CHECK(field.text() == little(4, 8));
  }
}

TEST_CASE("a file that is something else than its name says is refused by what it is, whatever format reads it") {
  const TemporaryDirectory folder;
  const auto refusal = [&](const std::string& name, const std::string& content) {
    write_file(folder / name, content);
    return build_error(options_for(folder / name));
  };
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  for (const char* const name : {"x.tar", "x.tfrecord", "x.rec", "x.json", "x.npz", "x.csv", "x-images-idx3-ubyte"}) {
    CAPTURE(name);
    CHECK(contains(refusal(name, pointer), "is a pointer of Git LFS, not the file itself; run `git lfs pull`"));
    CHECK(contains(refusal(name, "\n<!DOCTYPE html><html>404"), "is HTML, perhaps an error page"));
    CHECK(contains(refusal(name, "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>"), "object store"));
    CHECK(contains(refusal(name, std::string("\xFF\xFE{\0\"\0i\0", 8)), "is UTF-16 text"));
    CHECK(contains(refusal(name, std::string("\xFE\xFF\0a\0,\0b", 8)), "is UTF-16 text"));
    CHECK(contains(refusal(name, std::string("{\0\"\0i\0m\0a\0g\0e\0s\0", 16)), "is UTF-16 text"));
    CHECK(contains(refusal(name, std::string("\xFD"
                                             "7zXZ\0\0",
                                             7)),
                   "is compressed by xz"));
    CHECK(contains(refusal(name, "BZh91AY&SY..."), "is compressed by bzip2"));
    CHECK(contains(refusal(name, "\x28\xB5\x2F\xFD..."), "is compressed by Zstandard"));
  }
  CHECK(contains(refusal("x.zip", "PK\3\4" + std::string(60, 'x')), "a ZIP archive whose first member is no .npy"));
  CHECK(contains(refusal("x.xlsx", "PK\3\4" + std::string(60, 'x')), "is a spreadsheet; save it as .csv"));
  CHECK(contains(refusal("x.CSV.gz", "\x1F\x8B\b" + std::string(60, 'x')), "is a text compressed by gzip; unpack it"));
  for (const char* name : {"a.npz", "b.npz"}) write_file(folder / name, "PK\3\4" + std::string(60, 'x'));
  CHECK(contains(build_error(options_for(folder / "*.npz")), "is an .npz archive, of which one is read at a time"));
  // The same for files other than dataset.path: annotations, fields, labels, an index, a
  // configuration.
  write_file(folder / "voc/x.jpg", kJpeg);
  write_file(folder / "voc/x.xml", pointer);
  write_file(folder / "voc/y.jpg", kJpeg);
  write_file(folder / "voc/y.xml", annotation(object("cat")));
  CHECK(contains(skip_reason(*build_dataset(options_for(folder / "voc")), "x.xml"), "pointer of Git LFS"));
  write_file(folder / "classes/a/1.jpg", kJpeg);
  write_file(folder / "masks/1.png", pointer);
  DatasetOptions masks = options_for(folder / "classes");
  masks.fields = {{.name = "mask", .from = "../masks/{stem}.png", .kind = FieldKind::mask}};
  CHECK(contains(build_error(masks), "1.png: a pointer of Git LFS"));
  DatasetOptions indexed = options_for(folder / "classes");
  indexed.index = (folder / "x.csv").string();
  write_file(folder / "x.csv", pointer);
  CHECK(
      contains(error_of([&] { (void)open_dataset(indexed); }), "not an index of Forebay: it is a pointer of Git LFS"));
  CHECK(contains(error_of([&] { (void)load_options((folder / "x.csv").string()); }), "x.csv is a pointer of Git LFS"));
  write_file(folder / "lmdb/data.mdb", pointer);
  CHECK(contains(build_error(options_for(folder / "lmdb")), "is a pointer of Git LFS"));
  write_file(folder / "cifar/data_batch_1.bin", pointer);
  CHECK(contains(build_error(options_for(folder / "cifar")), "is a pointer of Git LFS"));
  write_gzip(folder / "y.tar.gz", "<html>404</html>" + std::string(1000, ' '));
  CHECK(contains(build_error(options_for(folder / "y.tar.gz")), "is HTML"));
  // In a folder of shards the others are still used; the bad one is named.
  write_file(folder / "shards/a.tar", tar_sample("a", kJpeg, "0") + tar_end());
  write_file(folder / "shards/b.tar", pointer);
  write_file(folder / "shards/c.tar.xz", "x");
  const auto dataset = build_dataset(options_for(folder / "shards"));
  CHECK(dataset->size() == 1);
  CHECK(contains(skip_reason(*dataset, "b.tar"), "the file is a pointer of Git LFS"));
  CHECK(find_skipped(*dataset, "c.tar.xz")->told);
  write_file(folder / "compressed/c.tar.xz", std::string("\xFD"
                                                         "7zXZ\0\0",
                                                         7));
  CHECK(contains(build_error(options_for(folder / "compressed")), "c.tar.xz is compressed by xz"));
}

TEST_CASE("records whose lengths look like marks of texts are no texts") {
  const TemporaryDirectory folder;
  // The first bytes of the length equal a byte order mark.
  const std::string record = tf_record(image_example(kJpeg + std::string(0xFEFF - 80, 'x'), 0));
  REQUIRE(record.starts_with("\xFF\xFE"));
  write_file(folder / "x.tfrecord", record);
  CHECK(build_dataset(options_for(folder / "x.tfrecord"))->size() == 1);
}

TEST_CASE("shards that are not read because others are for training are named") {
  const FolderOf folder{{"train-0.tar", tar_sample("a", kJpeg, "0")}, {"extra-0.tar", tar_sample("b", kJpeg, "0")}};
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->size() == 1);
  CHECK(contains(skip_reason(*dataset, "extra-0.tar"), "not read: names of others in the folder say"));
  const FolderOf other{{"constrained.tar", tar_sample("a", kJpeg, "0")}, {"free.tar", tar_sample("b", kJpeg, "0")}};
  CHECK(build_dataset(options_for(other.path()))->size() == 2);
}

TEST_CASE("a folder whose files are named like several parts is warned of, or read for training, in any case") {
  const auto built = [](const std::string& one, const std::string& other) {
    const FolderOf folder{{one, tar_sample("a", kJpeg, "0") + tar_end()},
                          {other, tar_sample("b", kJpeg, "0") + tar_end()}};
    const auto dataset = build_dataset(options_for(folder.path()));
    return std::pair(dataset->size(), skip_reason(*dataset, folder.path().string()));
  };
  CHECK(built("Train-0.tar", "Val-0.tar") == std::pair<std::uint64_t, std::string>{1, ""});
  CHECK(built("TRN_0.tar", "val_0.tar").first == 1);
  CHECK(built("tr-0.tar", "te-0.tar").first == 1);
  for (const auto& [one, other] : {std::pair{"data-0.tar", "val-0.tar"},
                                   {"valid-0.tar", "test-0.tar"},
                                   {"fold0-0.tar", "fold1-0.tar"},
                                   {"labeled-0.tar", "unlabeled-0.tar"}}) {
    CAPTURE(one);
    const auto [samples, remark] = built(one, other);
    CHECK(samples == 2);
    CHECK(contains(remark, "names say different parts of a dataset ("));
    CHECK(contains(remark, other));
  }
  for (const auto& [one, other] :
       {std::pair{"part-0.tar", "part-1.tar"}, {"a.tar", "b.TAR"}, {"test-0.tar", "test-1.tar"}}) {
    CAPTURE(one);
    CHECK(built(one, other) == std::pair<std::uint64_t, std::string>{2, ""});
  }
}

TEST_CASE("shards that a folder has in folders or of another kind are not read, which is said") {
  const std::string shard = tar_sample("a", kJpeg, "0") + tar_end();
  const FolderOf folder{{"0.tar", shard}, {"sub/1.tar", shard}, {"sub/2.tar", shard}, {"c.TFRecord", "x"}};
  DatasetOptions options = options_for(folder.path());
  const auto dataset = build_dataset(options);
  CHECK(dataset->size() == 1);
  CHECK(contains(skip_reason(*dataset, "c.TFRecord"), "not read: the folder is read for files of another format"));
  const std::string remark = skip_reason(*dataset, folder.path().string());
  CHECK(contains(remark, "2 files of this kind in its folders are not read"));
  options.path = (folder / "{,*/}*.tar").string();
  CHECK(contains(remark, "dataset.path = \"" + options.path + "\""));
  CHECK(build_dataset(options)->size() == 3);
  // A format that is given needs no walk through all folders, so there is none for a warning.
  CHECK(skip_reason(*build_dataset(options_for(folder.path(), "webdataset")), folder.path().string()).empty());
}

TEST_CASE("a pattern is advised only if it names what is read and what is told of, and no other part") {
  const std::string shard = tar_sample("a", kJpeg, "0") + tar_end();
  const auto remark = [](const FolderOf& folder) {
    return skip_reason(*build_dataset(options_for(folder.path())), folder.path().string());
  };
  const FolderOf parts{{"train-0.tar", shard}, {"val-0.tar", shard}, {"val/val-1.tar", shard}};
  CHECK(remark(parts).empty());
  const FolderOf deep{{"train-0.tar", shard}, {"val-0.tar", shard}, {"val/1.tar", shard}, {"old/deep/c.tar", shard}};
  CHECK(remark(deep).ends_with("1 file of this kind in its folders is not read"));
  CHECK(remark({{"a.tar", shard}, {"val/a.tar", shard}, {"b/a.tar", shard}})
            .ends_with("1 file of this kind in its folders is not read"));
  CHECK(remark({{"a.tar", shard}, {"b/a.tgz", shard}}).ends_with("is not read"));
  CHECK(remark({{"a.tar", shard}, {"b/a.tar", shard}, {"b/c/a.tar", shard}}).ends_with("are not read"));
  const FolderOf two{{"a.tar", shard}, {"b/c/a.tar", shard}};
  for (const std::string& path : {two.path().string(), two.path().string() + "/"}) {
    CHECK(skip_reason(*build_dataset(options_for(path)), path).ends_with("/{,*/*/}*.tar\" reads those too"));
  }
  // Wildcards may take in parts that nobody thought of; braces name them.
  const auto said_of = [&](const std::string& pattern) {
    const std::string path = (deep / pattern).string();
    return skip_reason(*build_dataset(options_for(path)), path);
  };
  CHECK(contains(said_of("{,*/*/}*.tar"), "names say different parts of a dataset ("));
  CHECK(said_of("{train,val}-0.tar").empty());
  CHECK(contains(remark({{"fold0.tar", shard}, {"fold1.tar", shard}, {"fold2.tar", shard}, {"fold3.tar", shard}}),
                 "(fold0.tar, fold1.tar, fold2.tar and 1 other)"));
}

TEST_CASE("a compressed RecordIO file is told by what it holds") {
  const TemporaryDirectory folder;
  write_gzip(folder / "z2.rec.gz", record_part(image_record(kJpeg, 0.0F)));
  write_gzip(folder / "without-ending", record_part(image_record(kJpeg, 0.0F)));
  CHECK(build_dataset(options_for(folder / "z2.rec.gz"))->format() == "recordio");
  CHECK(build_dataset(options_for(folder / "without-ending"))->format() == "recordio");
}

}  // namespace forebay::test_containers
