#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "dataset_support.hpp"
#include "support.hpp"

// The binary versions of CIFAR-10 and CIFAR-100.

using namespace forebay;
using namespace forebay::testing;

namespace {

std::string pixels(unsigned seed) {
  std::string bytes(3072, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + seed);
  return bytes;
}

// Records with these labels, and pixels by their place.
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

}  // namespace

TEST_CASE("a folder is its training batches, in the order of their names; a file is what it holds") {
  const TemporaryDirectory folder;
  write_file(folder / "batches.meta.txt", "airplane\nautomobile\r\nbird\n\n");
  write_file(folder / "data_batch_2.bin", ten({2, 0}, 50));
  write_file(folder / "data_batch_1.bin", ten({1, 9, 3}));
  write_file(folder / "test_batch.bin", ten({5}, 90));
  write_file(folder / "readme.html", "text");

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
  const TemporaryDirectory folder;
  write_file(folder / "alone.bin", hundred({99, 0, 7}));
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
  const TemporaryDirectory folder;
  write_file(folder / "data_batch_1.bin", ten({1, 10, 255, 3}) + "tail");
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{1, 3});
  CHECK(dataset->name(1).ends_with("data_batch_1.bin[record 3]"));
  CHECK(read_sample(*dataset, 1) == pixels(3));
  CHECK(count_bad(*dataset) == 3);
  CHECK(find_skipped(*dataset, "[record 1]")->reason == "label 10 of 10 classes");
  CHECK(find_skipped(*dataset, "[record 2]")->reason == "label 255 of 10 classes");
  CHECK(find_skipped(*dataset, ".bin")->reason == "byte 12296: it ends within a record");

  DatasetOptions options = options_for(folder.path());
  options.classes = {"a", "b"};
  CHECK(labels_of(*build_dataset(options)) == std::vector<std::int64_t>{1});
  write_file(folder / "data_batch_1.bin", "");
  CHECK(contains(error_of([&] { (void)build_dataset(options); }), "no record of CIFAR"));
}

TEST_CASE("a batch that changed after its index was saved is noticed, whatever its size") {
  const TemporaryDirectory folder;
  write_file(folder / "data_batch_1.bin", ten({1, 2}));
  write_file(folder / "data_batch_2.bin", ten({3}, 9));
  const auto bytes = build_dataset(options_for(folder.path()))->serialize();
  write_file(folder / "data_batch_1.bin", ten({1, 2}, 1));
  const auto restored = restore_dataset(bytes, "memory");
  CHECK(contains(error_of([&] { (void)read_sample(*restored, 0); }), "not the file that its index was made from"));
  CHECK(read_sample(*restored, 2) == pixels(9));
}

TEST_CASE("a batch that was added, and names of classes that changed, make an index stale") {
  const TemporaryDirectory folder;
  write_file(folder / "in/data_batch_1.bin", ten({1, 2}));
  write_file(folder / "in/batches.meta.txt", "airplane\nautomobile\n");
  DatasetOptions options = options_for(folder / "in");
  options.index = (folder / "saved.index").string();
  CHECK(open_dataset(options)->size() == 2);
  CHECK(open_dataset(options)->size() == 2);
  const auto is_stale = [&] {
    return contains(error_of([&] { (void)open_dataset(options); }), "other contents of the CIFAR files");
  };
  write_file(folder / "in/data_batch_2.bin", ten({3}, 9));
  CHECK(is_stale());
  std::filesystem::remove(folder / "in/data_batch_2.bin");
  CHECK_FALSE(is_stale());
  write_file(folder / "in/batches.meta.txt", "plane\ncar\n");
  CHECK(is_stale());
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
  const TemporaryDirectory folder;
  write_file(folder / "list.bin", "a.jpg,0\n");
  CHECK(build_dataset(options_for(folder / "list.bin"))->format() == "filelist");
  write_file(folder / "some/train.bin", std::string(3074, '\1'));
  write_file(folder / "some/class/x.jpg", "jpeg");
  CHECK(build_dataset(options_for(folder / "some"))->format() == "folder");
}

TEST_CASE("real CIFAR-10 records and files made on purpose") {
  const auto data = real_data();
  if (!data) {
    MESSAGE("skipped: no real data (FOREBAY_DATA)");
    return;
  }
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
