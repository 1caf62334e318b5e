#include <zlib.h>

#include "index_support.hpp"
#include "test.hpp"
#include "zip_files.hpp"

namespace forebay::test_cifar {
namespace {

using namespace testing;

// The binary versions of CIFAR-10 and CIFAR-100, and MNIST's idx files.

std::string pixels(unsigned seed) {
  std::string bytes(3072, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + seed);
  return bytes;
}

// CIFAR-10 records with these labels, and pixels that depend on their position.
std::string ten(const std::vector<int>& labels, unsigned seed = 0) {
  std::string bytes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    bytes.append(1, static_cast<char>(labels[i])).append(pixels(seed + static_cast<unsigned>(i)));
  }
  return bytes;
}

std::string hundred(const std::vector<int>& fine) {
  std::string bytes;
  for (std::size_t i = 0; i < fine.size(); ++i) {
    bytes.append(1, '\x13').append(1, static_cast<char>(fine[i])).append(pixels(static_cast<unsigned>(i)));
  }
  return bytes;
}

TEST_CASE("a folder is its training batches, in the order of their names; a file is what it holds") {
  const FolderOf folder{{"batches.meta.txt", "airplane\nautomobile\r\nbird\n\n"},
                        {"data_batch_2.bin", ten({2, 0}, 50)},
                        {"data_batch_1.bin", ten({1, 9, 3})},
                        {"test_batch.bin", ten({5}, 90)},
                        {"readme.html", "text"}};

  const auto train = build_dataset(options_for(folder.path()));
  CHECK(train->format() == "cifar");
  CHECK(labels_of(*train) == std::vector<std::int64_t>{1, 9, 3, 2, 0});
  CHECK(train->classes() ==
        std::vector<std::string>{"airplane", "automobile", "bird", "3", "4", "5", "6", "7", "8", "9"});
  CHECK(train->counts().images == 5);
  CHECK(train->skipped().empty());
  CHECK(train->name(1) == (folder / "data_batch_1.bin").string() + "[record 1]");
  CHECK(train->name(4) == (folder / "data_batch_2.bin").string() + "[record 1]");
  CHECK(read_sample(*train, 2) == pixels(2));
  CHECK(read_sample(*train, 4) == pixels(51));
  const Sample sample = train->sample(4);
  CHECK(sample.encoding == Encoding::raw);
  CHECK(sample.planar);
  CHECK(std::array{sample.width, sample.height, sample.channels} == std::array{32, 32, 3});

  const auto test = build_dataset(options_for(folder / "test_batch.bin"));
  CHECK(test->format() == "cifar");
  CHECK(labels_of(*test) == std::vector<std::int64_t>{5});
  CHECK(read_sample(*test, 0) == pixels(90));
}

TEST_CASE("CIFAR-100 has its fine labels") {
  const FolderOf folder{{"alone.bin", hundred({99, 0, 7})}};
  const auto alone = build_dataset(options_for(folder / "alone.bin"));
  CHECK(labels_of(*alone) == std::vector<std::int64_t>{99, 0, 7});
  CHECK(alone->classes().size() == 100);
  CHECK(read_sample(*alone, 1) == pixels(1));

  write_file(folder / "fine_label_names.txt", "apple\naquarium_fish\n");
  write_file(folder / "coarse_label_names.txt", "fish\n");
  write_file(folder / "train.bin", hundred({1}));
  write_file(folder / "test.bin", hundred({2, 3}));
  CHECK(labels_of(*build_dataset(options_for(folder.path()))) == std::vector<std::int64_t>{1});
  std::filesystem::remove(folder / "train.bin");
  const auto test = build_dataset(options_for(folder.path()));
  CHECK(labels_of(*test) == std::vector<std::int64_t>{2, 3});
  CHECK(test->classes().at(1) == "aquarium_fish");
}

TEST_CASE("broken records are left out by name, and the others keep their numbers") {
  const FolderOf folder{{"data_batch_1.bin", ten({1, 10, 255, 3}) + "tail"}};
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{1, 3});
  CHECK(dataset->name(1).ends_with("data_batch_1.bin[record 3]"));
  CHECK(read_sample(*dataset, 1) == pixels(3));
  CHECK(count_bad(*dataset) == 3);
  CHECK(skip_reason(*dataset, "[record 1]") == "label 10 of 10 classes");
  CHECK(skip_reason(*dataset, "[record 2]") == "label 255 of 10 classes");
  CHECK(skip_reason(*dataset, ".bin") == "byte 12296: it ends within a record");

  DatasetOptions options = options_for(folder.path());
  options.classes = {"a", "b"};
  CHECK(labels_of(*build_dataset(options)) == std::vector<std::int64_t>{1});
  write_file(folder / "data_batch_1.bin", "");
  CHECK(contains(build_error(options), "no record of CIFAR"));
}

TEST_CASE("a batch that changed after its index was saved is noticed, whatever its size") {
  const FolderOf folder{{"data_batch_1.bin", ten({1, 2})}, {"data_batch_2.bin", ten({3}, 9)}};
  const auto bytes = build_dataset(options_for(folder.path()))->serialize();
  write_file(folder / "data_batch_1.bin", ten({1, 2}, 1));
  const auto restored = restore_dataset(bytes, "memory");
  CHECK(contains(error_of([&] { (void)read_sample(*restored, 0); }), "not the file that its index was made from"));
  CHECK(read_sample(*restored, 2) == pixels(9));
}

TEST_CASE("a batch that was added, and names of classes that changed, make an index stale") {
  const FolderOf folder{{"in/data_batch_1.bin", ten({1, 2})}, {"in/batches.meta.txt", "airplane\nautomobile\n"}};
  const Kept kept(options_for(folder / "in"));
  const std::string stale = "other contents of the CIFAR files";
  CHECK(contains(kept.error_with(folder / "in/data_batch_2.bin", ten({3}, 9)), stale));
  CHECK(contains(kept.error_with(folder / "in/batches.meta.txt", "plane\ncar\n"), stale));
}

TEST_CASE("records of more files than stay open are read all the same") {
  const TemporaryDirectory folder;
  constexpr unsigned kFiles = 300;
  for (unsigned i = 0; i < kFiles; ++i) {
    write_file(folder / ("data_batch_" + std::to_string(1000 + i) + ".bin"), ten({static_cast<int>(i % 10)}, i));
  }
  const auto dataset = build_dataset(options_for(folder.path()));
  REQUIRE(dataset->size() == kFiles);
  for (int round = 0; round < 2; ++round) {
    for (unsigned i = 0; i < kFiles; ++i) CHECK(read_sample(*dataset, i) == pixels(i));
  }
}

TEST_CASE("what is no CIFAR is not taken for it") {
  const FolderOf folder{{"list.bin", "a.jpg,0\n"}};
  CHECK(build_dataset(options_for(folder / "list.bin"))->format() == "filelist");
  write_file(folder / "some/train.bin", std::string(3074, '\1'));
  write_file(folder / "some/class/x.jpg", "jpeg");
  CHECK(build_dataset(options_for(folder / "some"))->format() == "folder");
}

TEST_CASE("real CIFAR-10 records and files made on purpose") {
  const auto data = real_data();
  if (!data) return;
  const auto real = build_dataset(options_for(*data / "cifar10" / "cifar-10-batches-bin"));
  CHECK(real->format() == "cifar");
  REQUIRE(real->size() == 2000);
  CHECK(real->classes().front() == "airplane");
  CHECK(real->classes().size() == 10);
  std::array<int, 10> histogram{};
  for (const std::int64_t label : labels_of(*real)) ++histogram.at(static_cast<std::size_t>(label));
  CHECK(*std::ranges::min_element(histogram) > 150);
  CHECK(real->classes().at(static_cast<std::size_t>(real->sample(0).label)) == "frog");

  const auto made = *data / "made" / "cifar";
  CHECK(build_dataset(options_for(made / "ok.bin"))->size() == 10);
  const auto fine = build_dataset(options_for(made / "cifar100.bin"));
  CHECK(fine->classes().size() == 100);
  CHECK(fine->size() + count_bad(*fine) == 10);
  const auto wrong = build_dataset(options_for(made / "label255.bin"));
  CHECK(wrong->size() == 9);
  CHECK(count_bad(*wrong) == 1);
  const auto cut = build_dataset(options_for(made / "trunc.bin", "cifar"));
  CHECK(cut->size() == 9);
  CHECK(count_bad(*cut) == 1);
  CHECK_THROWS_AS((void)build_dataset(options_for(made / "empty.bin", "cifar")), ConfigError);
}

std::string number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> static_cast<unsigned>(shift));
  return bytes;
}

std::string header(unsigned type, std::initializer_list<std::uint32_t> dimensions) {
  std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(dimensions.size())};
  for (const auto dimension : dimensions) bytes += number(dimension);
  return bytes;
}

std::string values(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 7);
  return bytes;
}

std::string gzip(const std::string& bytes) { return testing::deflated(bytes, MAX_WBITS + 16); }

const std::string kImages = header(8, {3, 2, 4}) + values(24);
const std::string kLabels = header(8, {3}) + std::string("\2\0\1", 3);

// The message with which an idx dataset of this images file is refused; "" if it is built.
std::string refusal(const TemporaryDirectory& folder, const std::string& images) {
  write_file(folder / "refused", images);
  return build_error(options_for(folder / "refused", "idx"));
}

void check_is_sound(const std::filesystem::path& path) {
  const auto dataset = build_dataset(options_for(path));
  CHECK(dataset->format() == "idx");
  REQUIRE(dataset->size() == 3);
  for (std::uint64_t id = 0; id < 3; ++id) CHECK(read_sample(*dataset, id) == values(24).substr(id * 8, 8));
  const Sample sample = dataset->sample(0);
  CHECK(sample.height == 2);
  CHECK(sample.width == 4);
  CHECK(sample.channels == 1);
}

TEST_CASE("plain and compressed files hold the same samples, whatever they are called") {
  const FolderOf folder{{"plain", kImages},
                        {"compressed", gzip(kImages)},
                        {"plain.gz", kImages},
                        {"members.gz", gzip(kImages.substr(0, 13)) + gzip("") + gzip(kImages.substr(13))}};
  for (const char* name : {"plain", "compressed", "plain.gz", "members.gz"}) {
    CAPTURE(name);
    check_is_sound(folder / name);
  }
}

TEST_CASE("labels are found by name, plain or compressed, or named by an option") {
  const FolderOf folder{{"train-images-idx3-ubyte.gz", gzip(kImages)},
                        {"train-labels-idx1-ubyte", kLabels},
                        {"t10k-images.idx3-ubyte", kImages},
                        {"t10k-labels.idx1-ubyte.gz", gzip(kLabels)}};
  const auto labels_of = [](const DatasetOptions& options) {
    const auto dataset = build_dataset(options);
    return std::array{dataset->sample(0).label, dataset->sample(1).label, dataset->sample(2).label};
  };
  const std::array<std::int64_t, 3> expected{2, 0, 1};
  CHECK(labels_of(options_for(folder / "train-images-idx3-ubyte.gz")) == expected);
  CHECK(labels_of(options_for(folder / "t10k-images.idx3-ubyte")) == expected);
  CHECK(build_dataset(options_for(folder.path()))->name(1) ==
        (folder / "train-images-idx3-ubyte.gz").string() + "[record 1]");

  write_file(folder / "images", kImages);
  DatasetOptions options = options_for(folder / "images");
  CHECK(labels_of(options) == std::array<std::int64_t, 3>{-1, -1, -1});
  CHECK(contains(build_dataset(options)->skipped().at(0).reason, "set dataset.labels"));
  CHECK(build_dataset(options)->skipped().at(0).told);
  write_file(folder / "qmnist/qmnist-train-images-idx3-ubyte", kImages);
  write_file(folder / "qmnist/qmnist-train-labels-idx2-int", "x");
  const auto qmnist = build_dataset(options_for(folder / "qmnist/qmnist-train-images-idx3-ubyte"));
  CHECK(qmnist->skipped().at(0).told);
  CHECK(contains(qmnist->skipped()[0].reason, "and qmnist-train-labels-idx2-int has other labels than one byte"));
  options.labels = (folder / "train-labels-idx1-ubyte").string();
  CHECK(labels_of(options) == expected);
  CHECK(build_dataset(options)->classes() == std::vector<std::string>{"0", "1", "2"});
  options.classes = {"a", "b"};
  CHECK(contains(build_error(options), "label 2 at byte 8"));
}

TEST_CASE("several images files and no training set: the user must choose") {
  const FolderOf folder{{"a-images-idx3-ubyte", kImages}, {"b-images-idx3-ubyte", kImages}};
  CHECK(contains(build_error(options_for(folder.path())), "name one of them"));
}

TEST_CASE("colour images have their channels last") {
  const FolderOf folder{{"colour", header(8, {2, 2, 2, 3}) + values(24)}};
  const auto dataset = build_dataset(options_for(folder / "colour"));
  CHECK(dataset->size() == 2);
  CHECK(dataset->sample(1).channels == 3);
  CHECK(read_sample(*dataset, 1) == values(24).substr(12));
  CHECK(contains(refusal(folder, header(8, {2, 3, 2, 2}) + values(24)), "byte 8"));
}

TEST_CASE("damage is named with its byte") {
  const TemporaryDirectory folder;
  CHECK(contains(refusal(folder, ""), "byte 0: it ends inside the idx header"));
  CHECK(contains(refusal(folder, kImages.substr(0, 9)), "byte 9: it ends inside the idx header"));
  CHECK(contains(refusal(folder, std::string("\3\x08\0\0", 4) + kImages.substr(4)), "little endian"));
  CHECK(contains(refusal(folder, std::string(16, '\0')), "byte 2: type 0x00"));
  CHECK(contains(refusal(folder, header(0x0D, {3, 2, 4}) + values(96)), "32-bit floats"));
  CHECK(contains(refusal(folder, header(8, {24}) + values(24)), "dataset.labels"));
  CHECK(contains(refusal(folder, header(8, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF})), "byte 4"));
  CHECK(contains(refusal(folder, header(8, {0, 2, 4})), "0 images"));
  CHECK(contains(refusal(folder, header(8, {3, 0, 4})), "byte 8"));
  CHECK(contains(refusal(folder, kImages.substr(0, 30)), "byte 30: it ends here"));
  CHECK(contains(refusal(folder, kImages + "xx"), "byte 40: it continues here"));
}

TEST_CASE("damage inside a compressed file is found when the index is built") {
  const TemporaryDirectory folder;
  const std::string sound = gzip(kImages);
  for (std::size_t cut = 2; cut < sound.size(); ++cut) {
    CAPTURE(cut);
    CHECK(refusal(folder, sound.substr(0, cut)) != "");
  }
  std::string bad_checksum = sound;
  bad_checksum[bad_checksum.size() - 8] ^= '\1';
  CHECK(contains(refusal(folder, bad_checksum), "incorrect data check"));
  CHECK(contains(refusal(folder, gzip(kImages.substr(0, 30))), "its contents end at byte 30"));
  CHECK(contains(refusal(folder, gzip(kImages + std::string(100'000'000, '\0'))), "go on after byte 40"));
  // A wrong header does not cause memory to be allocated.
  CHECK(contains(refusal(folder, gzip(header(8, {20'000, 100, 100}) + values(9))), "end at byte 25"));
  CHECK(contains(refusal(folder, gzip(header(8, {400'000, 100, 100}) + values(9))),
                 "byte 4: 400000 x 100 x 100 values are too many to inflate from "));
  CHECK(contains(refusal(folder, gzip(header(8, {4'000'000, 1000, 1000}) + values(9))), "too many to inflate"));
}

TEST_CASE("what follows a gzip file is left alone and noted") {
  const FolderOf folder{{"trailing.gz", gzip(kImages) + "garbage"}};
  check_is_sound(folder / "trailing.gz");
  const auto dataset = build_dataset(options_for(folder / "trailing.gz"));
  const auto* note = find_skipped(*dataset, "trailing.gz");
  REQUIRE(note != nullptr);
  CHECK_FALSE(note->bad);
  CHECK(count_bad(*dataset) == 0);
}

TEST_CASE("labels that do not fit their images are refused") {
  const FolderOf folder{{"images-idx3", kImages}};
  const auto with_labels = [&](const std::string& labels) {
    write_file(folder / "labels-idx1", labels);
    return build_error(options_for(folder / "images-idx3"));
  };
  CHECK(with_labels(kLabels) == "");
  CHECK(contains(with_labels(header(8, {2}) + values(2)), "2 labels for 3 images"));
  CHECK(contains(with_labels(header(8, {3}) + values(2)), "byte 10"));
  CHECK(contains(with_labels(header(0x0C, {3}) + values(12)), "32-bit integers"));
  CHECK(contains(with_labels(kImages), "labels have 1"));
}

TEST_CASE("a file that changed after its index was saved is noticed") {
  const FolderOf folder{{"images", kImages}};
  const auto bytes = build_dataset(options_for(folder / "images"))->serialize();
  write_file(folder / "images", header(8, {2, 2, 4}) + values(16));
  const auto restored = restore_dataset(bytes, "memory");
  CHECK(contains(error_of([&] { (void)read_sample(*restored, 0); }), "not the file that its index was made from"));
  // Once the file is as before, reading works again.
  write_file(folder / "images", kImages);
  CHECK(read_sample(*restored, 0) == values(8));
}

TEST_CASE("images of a compressed file are in the index, and a file whose contents are there may not change") {
  const FolderOf folder{{"x-images-idx3-ubyte.gz", gzip(kImages)}, {"x-labels-idx1-ubyte", kLabels}};
  const auto images = folder / "x-images-idx3-ubyte.gz";
  const Kept kept(options_for(images));
  CHECK(read_sample(*open_dataset(kept.options), 1) == values(24).substr(8, 8));
  const char* const stale = "was built for other contents of the idx files; delete it";
  CHECK(contains(kept.error_with(images, gzip(header(8, {3, 2, 4}) + std::string(24, 'x'))), stale));
  CHECK(contains(kept.error_with(folder / "x-labels-idx1-ubyte", header(8, {3}) + std::string("\1\0\1", 3)), stale));
  std::filesystem::remove(images);
  CHECK(read_sample(*load_index(kept.options.index), 2) == values(24).substr(16));
}

TEST_CASE("MNIST and Fashion-MNIST") {
  const auto data = real_data();
  if (!data) return;
  for (const char* set : {"mnist", "fashion-mnist"}) {
    CAPTURE(set);
    const auto train = build_dataset(options_for(*data / set));
    const auto test = build_dataset(options_for(*data / set / "t10k-images-idx3-ubyte.gz"));
    CHECK(train->size() == 60'000);
    CHECK(test->size() == 10'000);
    for (const auto* dataset : {train.get(), test.get()}) {
      CHECK(dataset->classes().size() == 10);
      CHECK(dataset->sample(0).width == 28);
      std::array<std::uint64_t, 10> histogram{};
      for (std::uint64_t id = 0; id < dataset->size(); ++id) {
        ++histogram.at(static_cast<std::size_t>(dataset->sample(id).label));
      }
      const auto [least, most] = std::minmax_element(histogram.begin(), histogram.end());
      CHECK(*least * 10 > dataset->size() * 8 / 10);
      CHECK(*most * 10 < dataset->size() * 12 / 10);
    }
  }
}

TEST_CASE("idx files made on purpose") {
  const auto data = real_data();
  if (!data) return;
  const auto made = *data / "made" / "idx";
  const auto plain = build_dataset(options_for(made / "ok-images-idx3-ubyte", "idx"));
  CHECK(plain->size() == 50);
  CHECK(plain->sample(0).label >= 0);
  for (const char* file : {"ok-idx3.gz", "multimember-idx3.gz", "garbage-idx3.gz", "notgz-idx3.gz"}) {
    CAPTURE(file);
    const auto same = build_dataset(options_for(made / file, "idx"));
    REQUIRE(same->size() == 50);
    for (std::uint64_t id = 0; id < 50; ++id) CHECK(read_sample(*same, id) == read_sample(*plain, id));
  }
  for (const char* file :
       {"badcrc-idx3.gz", "bomb-idx3.gz", "extra-idx3", "float-idx2", "i32-idx1", "magic0-idx3", "overflow-idx3",
        "short_header-idx3", "swapped-idx3", "trunc-idx3", "trunc-idx3.gz", "zero-idx3"}) {
    CAPTURE(file);
    CHECK_THROWS_AS((void)build_dataset(options_for(made / file, "idx")), ConfigError);
    CHECK(contains(build_error(options_for(made / file, "idx")), file));
  }
  DatasetOptions mismatch = options_for(made / "ok-images-idx3-ubyte", "idx");
  mismatch.labels = (made / "count_mismatch-labels-idx1-ubyte").string();
  CHECK(contains(build_error(mismatch), "49 labels for 50 images"));
}

}  // namespace
}  // namespace forebay::test_cifar
