#include "container_files.hpp"
#include "dataset_support.hpp"
#include "test.hpp"

// LMDB environments: permitted values, and broken files.

namespace forebay::test_lmdb {

using namespace forebay::testing;

namespace {

std::unique_ptr<Dataset> dataset_of(const TemporaryDirectory& folder, const std::string& file) {
  write_file(folder / "data.mdb", file);
  return build_dataset(options_for(folder.path()));
}

}  // namespace

TEST_CASE("Datums of Caffe: encoded, and raw with blue first; in leaves and on pages of their own") {
  const TemporaryDirectory folder;
  std::string pixels;
  for (int i = 0; i < 48 * 40 * 3; ++i) pixels += static_cast<char>(i * 7);
  const auto dataset = dataset_of(folder, LmdbFile::of({{"0", encoded_datum(kJpeg, 2)},
                                                        {"1", datum(3, 2, 2, "0123456789AB", 0)},
                                                        {"2", datum(3, 48, 40, pixels, 1)},
                                                        {"3", datum(1, 3, 4, "0123456789AB", -1)},
                                                        {"4", datum(9, 9, 9, kJpeg, 2)}}));
  CHECK(dataset->format() == "lmdb");
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{2, 0, 1, -1, 2});
  CHECK(dataset->name(2) == (folder / "data.mdb").string() + "[record 2, 2]");
  CHECK(read_sample(*dataset, 0) == kJpeg);
  CHECK(read_sample(*dataset, 1) == "0123456789AB");
  CHECK(read_sample(*dataset, 2) == pixels);
  CHECK(read_sample(*dataset, 4) == kJpeg);
  const Sample raw = dataset->sample(2);
  CHECK(raw.encoding == Encoding::raw);
  CHECK(raw.planar);
  CHECK(raw.bgr);
  CHECK(std::array{raw.width, raw.height, raw.channels} == std::array{40, 48, 3});
  CHECK_FALSE(dataset->sample(3).bgr);
  CHECK(dataset->sample(4).encoding == Encoding::jpeg);
  CHECK(std::filesystem::exists(folder / "data.mdb"));
  CHECK_FALSE(std::filesystem::exists(folder / "lock.mdb"));
}

TEST_CASE("values that are image files, and entries that are about others") {
  const TemporaryDirectory folder;
  const std::string big = kJpeg + std::string(9000, 'x');
  const auto dataset = dataset_of(folder, LmdbFile::of({{"__keys__", "\x80\x03]q"},
                                                        {"__len__", "3"},
                                                        {"image-000000001", kJpeg},
                                                        {"image-000000002", big},
                                                        {"label-000000001", "text"},
                                                        {"label-a", kJpeg},
                                                        {"num-samples", "2"}}));
  REQUIRE(dataset->size() == 3);
  CHECK(read_sample(*dataset, 0) == kJpeg);
  CHECK(read_sample(*dataset, 1) == big);
  CHECK(dataset->name(2).ends_with("[record 5, label-a]"));
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{-1, -1, -1});
  CHECK(count_bad(*dataset) == 0);
  CHECK(dataset->name(0).ends_with("[record 2, image-000000001]"));
}

TEST_CASE("TensorProtos of Caffe2") {
  const TemporaryDirectory folder;
  const std::string image = wire_bytes(1, wire_number(1, 1) + wire_number(2, 4) + wire_bytes(6, kJpeg));
  const auto label = [](std::uint32_t field, const std::string& numbers) {
    return wire_bytes(1, wire_number(2, 2) + wire_bytes(field, numbers));
  };
  const auto dataset =
      dataset_of(folder, LmdbFile::of({{"0", image + label(4, varint(3))},
                                       {"1", label(10, varint(1)) + image},
                                       {"2", image + wire_bytes(1, wire_number(4, 2))},
                                       {"3", image + label(4, varint(3) + varint(4))},
                                       {"4", wire_bytes(1, wire_bytes(6, "no picture")) + label(4, varint(3))}}));
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{3, 1, 2, -1});
  for (std::uint64_t id = 0; id < 4; ++id) CHECK(read_sample(*dataset, id) == kJpeg);
  CHECK(count_bad(*dataset) == 1);
}

TEST_CASE("many leaves keep the order of their keys, whatever thread reads them") {
  const TemporaryDirectory folder;
  LmdbFile::Entries entries;
  for (int i = 0; i < 300; ++i) {
    const std::string number = std::to_string(1000 + i);
    entries.emplace_back("key" + number,
                         encoded_datum(kJpeg + number + std::string(i % 7 == 0 ? 2000 : 1, 'x'), i % 5));
  }
  write_file(folder / "data.mdb", LmdbFile::of(entries));
  const auto dataset = build_dataset(options_for(folder / "data.mdb"));
  REQUIRE(dataset->size() == entries.size());
  for (std::uint64_t id = 0; id < dataset->size(); ++id) {
    CHECK(dataset->name(id).ends_with("[record " + std::to_string(id) + ", " + entries[id].first + "]"));
    CHECK(contains(entries[id].second, read_sample(*dataset, id)));
  }
}

TEST_CASE("values that are no images are left out by key") {
  const TemporaryDirectory folder;
  const auto dataset = dataset_of(folder, LmdbFile::of({{"a", encoded_datum(kJpeg, 1)},
                                                        {"b", "rubbish"},
                                                        {"c", datum(3, 32, 32, "abc", 5)},
                                                        {"d", datum(~std::uint64_t{2}, 32, 32, "abc", 5)},
                                                        {"e", wire_number(1, 1) + wire_bytes(6, "0123")},
                                                        {"f", ""},
                                                        {"g", datum(2, 1, 1, "ab", 5)},
                                                        {"h", encoded_datum("", 1)},
                                                        {"i", wire_bytes(4, kJpeg)},
                                                        {"j", encoded_datum(kJpeg, std::int64_t{1} << 40)}}));
  CHECK(dataset->size() == 1);
  CHECK(skip_reason(*dataset, "[record 1, b]") == "byte 8192: is neither an image file nor a Datum of Caffe");
  CHECK(skip_reason(*dataset, "[record 2, c]") == "byte 8192: has 3 bytes for 3 channels of 32 x 32 pixels");
  CHECK(skip_reason(*dataset, "[record 3, d]") == "byte 12288: has 3 bytes for -3 channels of 32 x 32 pixels");
  CHECK(skip_reason(*dataset, "[record 4, e]") ==
        "byte 12288: a Datum of floating-point numbers, where bytes are read");
  CHECK(skip_reason(*dataset, "[record 5, f]") == "byte 12288: has no bytes");
  CHECK(contains(skip_reason(*dataset, "[record 6, g]"), "2 channels"));
  CHECK(skip_reason(*dataset, "[record 7, h]") == "byte 16384: a Datum without data");
  CHECK(contains(skip_reason(*dataset, "[record 8, i]"), "has no class, where others have one"));
  CHECK(contains(skip_reason(*dataset, "[record 9, j]"), "its class number is"));
}

TEST_CASE("a named database is read where it is the only one") {
  const TemporaryDirectory folder;
  const auto environment = [](const std::vector<std::string>& names) {
    LmdbFile file;
    std::vector<std::string> nodes;
    for (const auto& name : names) {
      const std::uint64_t root = file.add({{"a", encoded_datum(kJpeg + name, 0)}, {"b", encoded_datum(kJpeg, 1)}}, 1);
      nodes.push_back(LmdbFile::node(48, 2, name, LmdbFile::database(root)));
    }
    const std::size_t root = file.pages.size() / LmdbFile::kPage;
    file.pages += LmdbFile::node_page(root, 2, nodes);
    return file.with_root(root);
  };
  const auto dataset = dataset_of(folder, environment({"train"}));
  CHECK(dataset->size() == 2);
  CHECK(read_sample(*dataset, 0) == kJpeg + "train");
  const auto two = [&] { (void)dataset_of(folder, environment({"train", "val"})); };
  CHECK(contains(error_of(two), "an LMDB environment of several databases (train, val); one is read"));
}

TEST_CASE("the newest transaction counts, and a later one is noticed") {
  const TemporaryDirectory folder;
  const std::string old = LmdbFile::of({{"a", encoded_datum(kJpeg, 0)}});
  const auto bytes = dataset_of(folder, old)->serialize();
  LmdbFile file;
  const std::uint64_t first = file.add({{"a", encoded_datum(kJpeg, 0)}}, 3);
  const std::uint64_t second = file.add({{"b", encoded_datum(kJpeg + "new", 0)}, {"c", encoded_datum(kJpeg, 0)}}, 3);
  const std::string newer =
      file.pages.replace(0, 2 * LmdbFile::kPage, LmdbFile::meta(0, second, 2) + LmdbFile::meta(1, first, 1));
  CHECK(dataset_of(folder, newer)->size() == 2);
  // Even if the size is equal: both meta pages belong to the file's stamp.
  std::string changed = old;
  changed[LmdbFile::kPage + 144] = 3;
  write_file(folder / "data.mdb", changed);
  const auto restored = restore_dataset(bytes, "memory");
  CHECK(contains(error_of([&] { (void)read_sample(*restored, 0); }), "not the file that its index was made from"));
}

TEST_CASE("pages that are damaged or not there are left out, the others read") {
  const TemporaryDirectory folder;
  LmdbFile::Entries entries;
  for (int i = 0; i < 9; ++i) entries.emplace_back(std::to_string(i), encoded_datum(kJpeg + std::string(3000, 'x'), 0));
  const std::string good = LmdbFile::of(entries);
  std::string damaged = good;
  const std::size_t leaf = 5;  // after the pages of its three values
  REQUIRE(damaged[leaf * LmdbFile::kPage + 10] == 2);
  damaged.replace(leaf * LmdbFile::kPage, LmdbFile::kPage, LmdbFile::kPage, '\x55');
  const auto dataset = dataset_of(folder, damaged);
  CHECK(dataset->size() == 6);
  REQUIRE(count_bad(*dataset) == 1);
  CHECK(dataset->skipped()[0].reason ==
        "byte " + std::to_string(leaf * LmdbFile::kPage) + ": a damaged LMDB page; the entries after it are lost");

  const auto error = [&](const std::string& file) { return error_of([&] { (void)dataset_of(folder, file); }); };
  CHECK(
      contains(error(good.substr(0, good.size() - LmdbFile::kPage)), "it ends here, where an LMDB page 14 is needed"));
  CHECK(contains(error(std::string(100, 'x')), "no LMDB environment"));
  CHECK(contains(error(LmdbFile().with_root(~std::uint64_t{0})), "no entry with an image"));
  LmdbFile duplicates;
  const std::uint64_t root = duplicates.add({{"a", "b"}}, 3);
  CHECK(contains(error(duplicates.with_root(root, 4)), "several values per key"));
  std::string version = good;
  version[20] = version[LmdbFile::kPage + 20] = 2;
  CHECK(contains(error(version), "an LMDB environment of version 2; 1 is read"));
}

TEST_CASE("pages that lead to each other end") {
  const TemporaryDirectory folder;
  LmdbFile file;
  std::vector<std::string> nodes(100, LmdbFile::node(2, 0, "", ""));
  file.pages += LmdbFile::node_page(2, 1, nodes);
  file.pages += std::string(200 * LmdbFile::kPage, '\0');
  const auto error = error_of([&] { (void)dataset_of(folder, file.with_root(2)); });
  CHECK(contains(error, "LMDB pages that lead to each other"));
}

}  // namespace forebay::test_lmdb
